# Target `xgrammar`: the static library of the PyPI source archive of that name (its C++ core, no Python).
# ./build.sh puts the sources in the user's cache folder; the library is built there once for each version of archive and
# compiler, by the first configure that misses it, and serves every build folder and clone from then on. It is built
# without sanitizers and by GNU's compiler also for clang's builds: both use the same C++ library, so it links anywhere.
set(DI_XGRAMMAR_VERSION 0.2.9)

set(di_cache_folder $ENV{XDG_CACHE_HOME})
if(NOT di_cache_folder)
  set(di_cache_folder $ENV{HOME}/.cache)
endif()
set(di_xgrammar_source ${di_cache_folder}/deepinfer/xgrammar-${DI_XGRAMMAR_VERSION})
if(NOT EXISTS ${di_xgrammar_source}/include/xgrammar/xgrammar.h)
  message(FATAL_ERROR "xgrammar ${DI_XGRAMMAR_VERSION} is not in ${di_xgrammar_source}; run ./build.sh, which downloads it")
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(di_xgrammar_compiler ${CMAKE_CXX_COMPILER})
else()
  find_program(di_xgrammar_compiler g++ REQUIRED)
endif()
execute_process(COMMAND ${di_xgrammar_compiler} -dumpfullversion
                OUTPUT_VARIABLE di_xgrammar_compiler_version OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
# The recipe is part of the name: another recipe is another library.
file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/xgrammar/CMakeLists.txt di_xgrammar_recipe)
string(SUBSTRING ${di_xgrammar_recipe} 0 8 di_xgrammar_recipe)
set(di_xgrammar_build
    ${di_xgrammar_source}-${CMAKE_SYSTEM_PROCESSOR}-gnu-${di_xgrammar_compiler_version}-${di_xgrammar_recipe})
set(di_xgrammar_library ${di_xgrammar_build}/libxgrammar.a)

# Two configures at once: one builds, the other waits and finds it done.
file(LOCK ${di_xgrammar_build}.lock TIMEOUT 1800)
if(NOT EXISTS ${di_xgrammar_build}/complete)
  message(STATUS "building xgrammar ${DI_XGRAMMAR_VERSION} once, in ${di_xgrammar_build} (about a minute)")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/xgrammar -B ${di_xgrammar_build} -G ${CMAKE_GENERATOR}
            -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${di_xgrammar_compiler}
            -DCMAKE_BUILD_TYPE=Release -DXGRAMMAR_SOURCE=${di_xgrammar_source}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${di_xgrammar_build} --parallel COMMAND_ERROR_IS_FATAL ANY)
  file(TOUCH ${di_xgrammar_build}/complete)
endif()
file(LOCK ${di_xgrammar_build}.lock RELEASE)

add_library(xgrammar STATIC IMPORTED GLOBAL)
set_target_properties(xgrammar PROPERTIES IMPORTED_LOCATION ${di_xgrammar_library})
target_include_directories(xgrammar SYSTEM INTERFACE ${di_xgrammar_source}/include
                                                     ${di_xgrammar_source}/3rdparty/dlpack/include)
target_link_libraries(xgrammar INTERFACE Threads::Threads)
