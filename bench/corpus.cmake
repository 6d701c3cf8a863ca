add_executable(bench_corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus.cpp)
target_link_libraries(bench_corpus PRIVATE forecost_corpus)
