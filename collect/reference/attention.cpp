#include "data/operators/attention.hpp"

#include <cmath>

#include "collect/reference/references.hpp"

namespace forecost {

Operands attention_reference(const Task& task, const Operands& operands) {
  const AttentionShape s = attention_shape(task.layer);
  const bool forward = task.pass == Pass::forward;
  const auto &q = operands.at("query"), &k = operands.at("key"), &v = operands.at("value");
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_features));
  std::vector<double> o(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    for (std::int64_t i = 0; i < s.query_length; ++i) {
      const auto query = [&](std::int64_t f) {
        return static_cast<std::size_t>((head * s.query_length + i) * s.head_features + f);
      };
      const auto key = [&](std::int64_t j, std::int64_t f) {
        return static_cast<std::size_t>((head * s.key_length + j) * s.head_features + f);
      };
      const std::int64_t seen = s.causal ? s.key_length - s.query_length + i + 1 : s.key_length;
      std::vector<double> p(static_cast<std::size_t>(seen)), dp(p.size());
      double total = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        auto& pj = p[static_cast<std::size_t>(j)];
        for (std::int64_t f = 0; f < s.head_features; ++f) pj += q[query(f)] * k[key(j, f)];
        pj = std::exp(pj * scale);
        total += pj;
      }
      double sum = 0;  // of P dP
      for (std::int64_t j = 0; j < seen; ++j) {
        auto& pj = p[static_cast<std::size_t>(j)];
        pj /= total;
        for (std::int64_t f = 0; f < s.head_features; ++f) {
          o[query(f)] += pj * v[key(j, f)];
          if (forward) continue;
          const double d_o = operands.at("diff_dst")[query(f)];
          dv[key(j, f)] += pj * d_o;
          dp[static_cast<std::size_t>(j)] += d_o * v[key(j, f)];
        }
        sum += pj * dp[static_cast<std::size_t>(j)];
      }
      for (std::int64_t j = 0; j < seen; ++j) {
        const double ds =
            p[static_cast<std::size_t>(j)] * (dp[static_cast<std::size_t>(j)] - sum) * scale;
        for (std::int64_t f = 0; f < s.head_features; ++f) {
          dq[query(f)] += ds * k[key(j, f)];
          dk[key(j, f)] += ds * q[query(f)];
        }
      }
    }
  }
  if (forward) return {{"dst", std::move(o)}};
  return {
      {"diff_query", std::move(dq)}, {"diff_key", std::move(dk)}, {"diff_value", std::move(dv)}};
}

}  // namespace forecost
