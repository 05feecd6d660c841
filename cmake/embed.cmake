# gradwire_embed(<source> <name>=<file>...): makes a C source with each file's text as the array `const char <name>[]`,
# ended by a zero. A changed file configures again.
function(gradwire_embed source)
    set(text "")
    foreach(pair IN LISTS ARGN)
        string(REGEX REPLACE "=.*" "" name ${pair})
        string(REGEX REPLACE "^[^=]*=" "" file ${pair})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(READ ${file} bytes HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
        string(APPEND text "extern const char ${name}[];\nconst char ${name}[] = { ${bytes}0 };\n")
    endforeach()
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
endfunction()
