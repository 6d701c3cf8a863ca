# Options and compiler flags.
foreach(part MPI ONEDNN CUDA)
  set(FORECOST_${part} AUTO CACHE STRING "Use ${part}: AUTO (if found), ON (required) or OFF")
  set_property(CACHE FORECOST_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT FORECOST_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "FORECOST_${part}=${FORECOST_${part}}: expected AUTO, ON or OFF")
  endif()
endforeach()
option(FORECOST_TESTS "Build the tests" OFF)
option(FORECOST_BENCH "Build the benchmarks" OFF)
option(FORECOST_WERROR "Treat warnings as errors (CI)" OFF)
# Every HPC node of the last ten years has AVX2; what is hot dispatches to AVX-512 at run time.
set(FORECOST_ARCH x86-64-v3 CACHE STRING "-march of the build; empty: the compiler's default")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Designated initialisers leave members at their defaults on purpose.
set(host_code "$<COMPILE_LANGUAGE:C,CXX>")  # nvcc takes few of these
foreach(flag -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers)
  add_compile_options($<${host_code}:${flag}>)
endforeach()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<${host_code}:-Wno-restrict>)  # GCC bug 105651: false positives in std::string's operator+
endif()
add_compile_options($<${host_code}:-fno-math-errno>)  # nobody reads it, and it keeps roots from being vectorised
if(FORECOST_WERROR)
  add_compile_options($<${host_code}:-Werror>)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(FORECOST_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options($<${host_code}:-march=${FORECOST_ARCH}>)
endif()
find_program(FORECOST_CCACHE ccache)
if(FORECOST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FORECOST_CCACHE})
endif()
