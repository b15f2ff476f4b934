# Target `jinja`: the template engine inside the PyPI source archive llama-cpp-python (a few files of its llama.cpp, nothing
# else of it). ./build.sh puts those sources in the user's cache folder; as with xgrammar the library is built there once
# for each version of archive and compiler.
set(DI_JINJA_VERSION 0.3.36)

set(di_jinja_source ${di_cache_folder}/deepinfer/jinja-${DI_JINJA_VERSION})
if(NOT EXISTS ${di_jinja_source}/jinja/runtime.h)
  message(FATAL_ERROR "the jinja engine of llama-cpp-python ${DI_JINJA_VERSION} is not in ${di_jinja_source}; "
                      "run ./build.sh, which downloads it")
endif()
file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/jinja/CMakeLists.txt di_jinja_recipe)
string(SUBSTRING ${di_jinja_recipe} 0 8 di_jinja_recipe)
set(di_jinja_build ${di_jinja_source}-${CMAKE_SYSTEM_PROCESSOR}-gnu-${di_xgrammar_compiler_version}-${di_jinja_recipe})

file(LOCK ${di_jinja_build}.lock TIMEOUT 1800)
if(NOT EXISTS ${di_jinja_build}/complete)
  message(STATUS "building the jinja engine ${DI_JINJA_VERSION} once, in ${di_jinja_build}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/jinja -B ${di_jinja_build} -G ${CMAKE_GENERATOR}
            -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${di_xgrammar_compiler}
            -DCMAKE_BUILD_TYPE=Release -DJINJA_SOURCE=${di_jinja_source}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${di_jinja_build} --parallel COMMAND_ERROR_IS_FATAL ANY)
  file(TOUCH ${di_jinja_build}/complete)
endif()
file(LOCK ${di_jinja_build}.lock RELEASE)

add_library(jinja STATIC IMPORTED GLOBAL)
set_target_properties(jinja PROPERTIES IMPORTED_LOCATION ${di_jinja_build}/libjinja.a)
target_include_directories(jinja SYSTEM INTERFACE ${di_jinja_source})
