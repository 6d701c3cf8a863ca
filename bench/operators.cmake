add_executable(bench_operators ${CMAKE_CURRENT_SOURCE_DIR}/operators.cpp)
target_link_libraries(bench_operators PRIVATE forecost_collect nlohmann_json::nlohmann_json)
