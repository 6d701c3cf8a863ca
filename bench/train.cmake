add_executable(bench_train ${CMAKE_CURRENT_SOURCE_DIR}/train.cpp)
target_link_libraries(bench_train PRIVATE forecost_train)
