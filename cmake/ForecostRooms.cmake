# forecost_room(NAME SOURCES glob... [EXCLUDE regex...] LINK targets... [PRIVATE_LINK targets...])
# One static library forecost_NAME per room. Sources are globbed, so that a new operator, backend or
# importer is one file and its registry line. Headers are included from the root: "core/error.hpp".
function(forecost_room name)
  cmake_parse_arguments(room "" "" "SOURCES;EXCLUDE;LINK;PRIVATE_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${room_SOURCES})
  foreach(pattern IN LISTS room_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}$")
  endforeach()
  add_library(forecost_${name} STATIC ${sources})
  target_include_directories(forecost_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(forecost_${name} PUBLIC ${room_LINK} PRIVATE ${room_PRIVATE_LINK})
endfunction()
