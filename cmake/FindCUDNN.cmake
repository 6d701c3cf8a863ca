# cuDNN 9: CUDNN_INCLUDE_DIR, CUDNN_LIBRARY, CUDNN_VERSION and the target CUDNN::cudnn. Looks below
# CUDNN_ROOT, beside the CUDA Toolkit and in the system's folders. CUDNN_SEARCHED says where.
set(CUDNN_SEARCHED ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT}
  ${CMAKE_PREFIX_PATH} /usr /usr/local)
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib64 lib)
if(CUDNN_INCLUDE_DIR)
  # Up to cuDNN 9.12 the numbers are in that file, later in one that it includes.
  file(GLOB headers ${CUDNN_INCLUDE_DIR}/cudnn_version*.h)
  set(text "")
  foreach(header IN LISTS headers)
    file(READ ${header} more)
    string(APPEND text "${more}")
  endforeach()
  foreach(part MAJOR MINOR PATCHLEVEL)
    string(REGEX MATCH "#define CUDNN_${part} +([0-9]+)" _ "${text}")
    list(APPEND numbers "${CMAKE_MATCH_1}")
  endforeach()
  string(REPLACE ";" "." CUDNN_VERSION "${numbers}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
  VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn INTERFACE IMPORTED)
  target_include_directories(CUDNN::cudnn SYSTEM INTERFACE ${CUDNN_INCLUDE_DIR})
  target_link_libraries(CUDNN::cudnn INTERFACE ${CUDNN_LIBRARY})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
