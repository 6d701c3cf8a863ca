# Whether the CUDA module can be built: FORECOST_HAVE_CUDA, and why not where it cannot. The module
# is opened at run time (docs/gpu.md), so the program itself needs none of this.
set(FORECOST_HAVE_CUDA OFF)
if(NOT FORECOST_CUDA STREQUAL OFF)
  set(missing "")
  find_package(CUDAToolkit 12.4 QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(missing "CUDA Toolkit 12.4 or newer (looked in CUDAToolkit_ROOT=${CUDAToolkit_ROOT}$ENV{CUDAToolkit_ROOT}, CUDA_PATH=$ENV{CUDA_PATH}, nvcc on PATH, /usr/local/cuda)")
  else()
    find_package(CUDNN 9 QUIET)
    find_package(NCCL QUIET)
    foreach(package CUDNN NCCL)
      if(NOT ${package}_FOUND)
        if(CMAKE_DISABLE_FIND_PACKAGE_${package})
          list(APPEND missing "${package} (CMAKE_DISABLE_FIND_PACKAGE_${package} is set)")
        else()
          list(JOIN ${package}_SEARCHED " " searched)
          list(APPEND missing
            "${package} (looked below ${searched}; ${package}_ROOT names another place)")
        endif()
      endif()
    endforeach()
  endif()
  if(missing)
    list(JOIN missing "; " missing)
    if(FORECOST_CUDA STREQUAL ON)
      message(FATAL_ERROR "FORECOST_CUDA=ON, but there is no ${missing}")
    endif()
    message(STATUS "CUDA module: not built, no ${missing}")
  else()
    set(FORECOST_HAVE_CUDA ON)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    # Every generation that the toolkit knows, unless told: a user's module serves the whole machine.
    # (Code of a generation runs on all its members; `all` takes minutes for each file.)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES all-major)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake before 3.25.2 does not know that nvcc has it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    message(STATUS "CUDA module: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, "
                   "NCCL ${NCCL_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()

# What the program and a module must agree on: the interface between them, and the version.
set(interface ${CMAKE_CURRENT_SOURCE_DIR}/cuda/module_interface.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${interface})
file(READ ${interface} FORECOST_CUDA_BUILD)
string(SHA256 FORECOST_CUDA_BUILD "${PROJECT_VERSION} ${FORECOST_CUDA_BUILD}")
string(SUBSTRING ${FORECOST_CUDA_BUILD} 0 16 FORECOST_CUDA_BUILD)

# forecost_cuda_module(NAME): the module from its sources, as the target NAME.
function(forecost_cuda_module name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/module/*.cpp
    ${PROJECT_SOURCE_DIR}/cuda/module/*.cu)
  add_library(${name} MODULE ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE FORECOST_CUDA_BUILD="${FORECOST_CUDA_BUILD}"
    FORECOST_CUBLAS_LT="libcublasLt.so.${CUDAToolkit_VERSION_MAJOR}"
    FORECOST_CUBLAS="libcublas.so.${CUDAToolkit_VERSION_MAJOR}")
  target_link_libraries(${name} PRIVATE CUDA::cudart CUDNN::cudnn NCCL::nccl ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES
    PREFIX "" OUTPUT_NAME forecost-cuda${CUDAToolkit_VERSION_MAJOR}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}/forecost
    CUDA_RUNTIME_LIBRARY Shared
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR} INSTALL_RPATH ${CUDAToolkit_LIBRARY_DIR})
  # RUNPATH, which LD_LIBRARY_PATH (environment modules, tests) goes before.
  target_link_options(${name} PRIVATE -Wl,--enable-new-dtags)
endfunction()
