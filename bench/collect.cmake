add_executable(bench_collect ${CMAKE_CURRENT_SOURCE_DIR}/collect.cpp)
target_link_libraries(bench_collect PRIVATE forecost_corpus)
