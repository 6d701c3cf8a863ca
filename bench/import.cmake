add_executable(bench_import ${CMAKE_CURRENT_SOURCE_DIR}/import.cpp)
target_link_libraries(bench_import PRIVATE forecost_corpus)
