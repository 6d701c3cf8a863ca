#include "data/operators/embedding.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_embedding(Recipe& recipe, const Task& task) {
  const EmbeddingShape s = embedding_shape(task.layer);
  Embedding embedding{Direction::forward, recipe.element(), s.batch * s.length, s.entries,
                      s.features};
  const auto table = recipe.plain(s.entries * s.features),
             rows = recipe.plain(embedding.count * s.features);
  const auto ids = recipe.indices("ids", embedding.count, s.entries);
  if (task.pass == Pass::forward) {
    recipe.run(primitive(embedding),
               {ids, recipe.input("weights", table), recipe.result("dst", rows)});
    return;
  }
  embedding.direction = Direction::backward;
  recipe.run(primitive(embedding),
             {ids, recipe.input("diff_dst", rows), recipe.result("diff_weights", table)});
}

}  // namespace forecost::cuda
