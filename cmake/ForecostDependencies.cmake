# Every dependency is a package of the system; scripts/packages.sh lists them for Debian, Spack and
# environment modules.
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(Threads REQUIRED)

# What imports of timing tables read CSV and evaluate expressions with (docs/import.md).
pkg_check_modules(FORECOST_MUPARSER_PC IMPORTED_TARGET muparser)
find_path(FORECOST_LIBCSV_INCLUDE csv.h)
find_library(FORECOST_LIBCSV_LIBRARY csv)
if(NOT FORECOST_MUPARSER_PC_FOUND)
  message(FATAL_ERROR "muParser is missing (Debian: libmuparser-dev; Spack: muparser): expected "
                      "muparser.pc on PKG_CONFIG_PATH")
endif()
if(NOT FORECOST_LIBCSV_INCLUDE OR NOT FORECOST_LIBCSV_LIBRARY)
  message(FATAL_ERROR "libcsv is missing (Debian: libcsv-dev): expected csv.h and libcsv, for "
                      "instance below a folder of CMAKE_PREFIX_PATH")
endif()
add_library(forecost_muparser ALIAS PkgConfig::FORECOST_MUPARSER_PC)
add_library(forecost_libcsv INTERFACE)
target_include_directories(forecost_libcsv SYSTEM INTERFACE ${FORECOST_LIBCSV_INCLUDE})
target_link_libraries(forecost_libcsv INTERFACE ${FORECOST_LIBCSV_LIBRARY})

# The serial HDF5: only one process writes a file (docs/corpus.md).
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C HL)
add_library(forecost_hdf5 INTERFACE)
target_include_directories(forecost_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(forecost_hdf5 INTERFACE ${HDF5_HL_LIBRARIES} ${HDF5_C_LIBRARIES})

set(FORECOST_HAVE_MPI OFF)
if(NOT FORECOST_MPI STREQUAL OFF)
  find_package(MPI COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(FORECOST_HAVE_MPI ON)
  elseif(FORECOST_MPI STREQUAL ON)
    message(FATAL_ERROR "FORECOST_MPI=ON, but no MPI was found (Debian: libopenmpi-dev)")
  endif()
endif()

set(FORECOST_HAVE_ONEDNN OFF)
if(NOT FORECOST_ONEDNN STREQUAL OFF)
  # Debian's dnnl-config.cmake needs OpenCL's headers; plain look-ups do not.
  find_path(FORECOST_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(FORECOST_ONEDNN_LIBRARY dnnl)
  pkg_check_modules(FORECOST_HWLOC_PC IMPORTED_TARGET hwloc)
  find_package(OpenMP COMPONENTS CXX)
  if(FORECOST_ONEDNN_INCLUDE AND FORECOST_ONEDNN_LIBRARY AND FORECOST_HWLOC_PC_FOUND AND OpenMP_CXX_FOUND)
    set(FORECOST_HAVE_ONEDNN ON)
    add_library(forecost_onednn INTERFACE)
    target_include_directories(forecost_onednn SYSTEM INTERFACE ${FORECOST_ONEDNN_INCLUDE})
    target_link_libraries(forecost_onednn INTERFACE ${FORECOST_ONEDNN_LIBRARY})
    add_library(forecost_hwloc ALIAS PkgConfig::FORECOST_HWLOC_PC)
  elseif(FORECOST_ONEDNN STREQUAL ON)
    message(FATAL_ERROR "FORECOST_ONEDNN=ON, but oneDNN (Debian: libdnnl-dev), hwloc (libhwloc-dev) "
                        "or OpenMP is missing")
  endif()
endif()

# The CUDA module (DESIGN: opened at run time) is not written yet; ON must not pass silently.
if(FORECOST_CUDA STREQUAL ON)
  message(FATAL_ERROR "FORECOST_CUDA=ON: this version has no CUDA module yet; use AUTO or OFF")
endif()

if(FORECOST_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 COMPONENTS Interpreter)
endif()
if(FORECOST_BENCH)
  find_package(benchmark REQUIRED)
endif()
message(STATUS "Forecost: MPI ${FORECOST_HAVE_MPI}, oneDNN ${FORECOST_HAVE_ONEDNN}")
