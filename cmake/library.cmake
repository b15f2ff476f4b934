# libdeepinfer: the C ABI as a shared library, with the C++ API as a header over it. Nothing else is exported.
add_library(libdeepinfer SHARED $<TARGET_OBJECTS:di_c_abi>)
target_link_libraries(libdeepinfer PRIVATE di_session)
target_include_directories(libdeepinfer INTERFACE ${CMAKE_SOURCE_DIR}/include)
set(di_exports ${CMAKE_SOURCE_DIR}/src/c_abi/exports.map)
target_link_options(libdeepinfer PRIVATE -Wl,--version-script=${di_exports})
set_target_properties(libdeepinfer PROPERTIES OUTPUT_NAME deepinfer VERSION ${PROJECT_VERSION} SOVERSION 1
                      LINK_DEPENDS ${di_exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# The wheel brings its own rules.
if(NOT DI_PYTHON)
  include(GNUInstallDirs)
  configure_file(cmake/deepinfer.pc.in ${CMAKE_BINARY_DIR}/deepinfer.pc @ONLY)
  install(TARGETS deepinfer libdeepinfer)
  install(DIRECTORY include/di DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(FILES ${CMAKE_BINARY_DIR}/deepinfer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(DIRECTORY models/v41-mini DESTINATION ${CMAKE_INSTALL_DATADIR}/deepinfer/models PATTERN "goldens.*" EXCLUDE)
endif()

# The examples, as a user would build them, and a run of each. The C one by the system's C compiler, without making C a language of
# the project for one file.
find_program(DI_CC NAMES cc gcc clang)
if(DI_TESTS AND DI_CC AND NOT DI_SANITIZE)
  add_executable(example_stream_cpp examples/stream.cpp)
  target_link_libraries(example_stream_cpp PRIVATE libdeepinfer)
  set(di_example_c ${CMAKE_BINARY_DIR}/example_generate)
  add_custom_command(
    OUTPUT ${di_example_c}
    COMMAND ${DI_CC} -std=c11 -Wall -Wextra -Wpedantic -Werror -I${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/examples/generate.c
            $<TARGET_FILE:libdeepinfer> -Wl,-rpath,$<TARGET_FILE_DIR:libdeepinfer> -o ${di_example_c}
    DEPENDS libdeepinfer ${CMAKE_SOURCE_DIR}/examples/generate.c ${CMAKE_SOURCE_DIR}/include/di/c_api.h VERBATIM)
  add_custom_target(example_generate_c ALL DEPENDS ${di_example_c})
  add_test(NAME example_generate_c COMMAND ${di_example_c} models/v41-mini WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME example_stream_cpp COMMAND example_stream_cpp models/v41-mini WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(example_generate_c PROPERTIES PASS_REGULAR_EXPRESSION "1: ends with length after 12 tokens")
  set_tests_properties(example_stream_cpp PROPERTIES PASS_REGULAR_EXPRESSION "\\[(abort|stop), [0-9]+ tokens\\]")
endif()
