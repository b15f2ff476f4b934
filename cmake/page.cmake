# The static page inside the program: src/server/page/ becomes a table of constants that src/server/page.cpp includes.
# Done when CMake configures, which it does again when one of the files changes. Adding a file: one line here.
set(DI_PAGE_FILES
    "index.html:text/html"
    "app.js:text/javascript"
    "live.js:text/javascript"
    "style.css:text/css")

function(di_embed_page target)
  set(arrays "")
  set(table "")
  set(index 0)
  foreach(entry IN LISTS DI_PAGE_FILES)
    string(REPLACE ":" ";" entry "${entry}")
    list(GET entry 0 name)
    list(GET entry 1 type)
    set(path ${CMAKE_SOURCE_DIR}/src/server/page/${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    # A line of the text a line.
    string(REPLACE "'\\x0a'," "'\\x0a',\n" bytes "${bytes}")
    string(APPEND arrays "constexpr char kPageText${index}[] = {\n${bytes}};\n")
    string(APPEND table "    {\"${name}\", \"${type}; charset=utf-8\", {kPageText${index}, sizeof kPageText${index}}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  # Written only when it differs, so that configuring again compiles nothing.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/page/server/page_files.inc @ONLY CONTENT
       "// Generated from src/server/page/ by cmake/page.cmake.\n${arrays}constexpr PageFile kPageFiles[] = {\n${table}};\n")
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/page)
endfunction()
