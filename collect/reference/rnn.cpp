#include "data/operators/rnn.hpp"

#include <cmath>

#include <fmt/format.h>

#include "collect/reference/references.hpp"

namespace forecost {

namespace {

using Values = std::vector<double>;

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// One direction of one layer: what is learned, or its gradients. All are parts of whole tensors.
struct Parameters {
  double* w;  ///< [in, gates, hidden]
  double* u;  ///< [hidden, gates, hidden]
  double* b;  ///< [gates, hidden], of a gru [4, hidden]
};

/// What a step computed of an item: its gates in the library's order (lstm: input, forget, cell,
/// output; gru: update, reset, candidate), its cell state, of a gru the product that the reset gate
/// scales, and its output.
struct Step {
  Values gates, c, product, h;
};

class Direction {
 public:
  Direction(const RnnShape& s, std::size_t in, Parameters p)
      : cell_(s.cell),
        in_(in),
        h_(static_cast<std::size_t>(s.hidden_features)),
        g_(static_cast<std::size_t>(s.gates())),
        p_(p) {}

  Step start() const { return {Values(g_ * h_), Values(h_), Values(h_), Values(h_)}; }

  Step forward(const double* x, const Step& before) const {
    Step step = start();
    for (std::size_t o = 0; o < h_; ++o) {
      const auto sum_x = [&](std::size_t gate) {
        double sum = p_.b[gate * h_ + o];
        for (std::size_t i = 0; i < in_; ++i) sum += x[i] * p_.w[(i * g_ + gate) * h_ + o];
        return sum;
      };
      const auto sum_h = [&](std::size_t gate) {
        double sum = 0;
        for (std::size_t i = 0; i < h_; ++i) sum += before.h[i] * p_.u[(i * g_ + gate) * h_ + o];
        return sum;
      };
      const auto gate = [&](std::size_t number) -> double& { return step.gates[number * h_ + o]; };
      switch (cell_) {
        case RnnCell::vanilla:
          step.h[o] = gate(0) = std::tanh(sum_x(0) + sum_h(0));
          break;
        case RnnCell::lstm:
          for (const std::size_t i : {0, 1, 3}) gate(i) = sigmoid(sum_x(i) + sum_h(i));
          gate(2) = std::tanh(sum_x(2) + sum_h(2));
          step.c[o] = gate(1) * before.c[o] + gate(0) * gate(2);
          step.h[o] = gate(3) * std::tanh(step.c[o]);
          break;
        case RnnCell::gru:
          for (const std::size_t i : {0, 1}) gate(i) = sigmoid(sum_x(i) + sum_h(i));
          step.product[o] = sum_h(2) + p_.b[3 * h_ + o];
          gate(2) = std::tanh(sum_x(2) + gate(1) * step.product[o]);
          step.h[o] = gate(0) * before.h[o] + (1 - gate(0)) * gate(2);
          break;
      }
    }
    return step;
  }

  /// From dh and dc, the gradients of a step's output and cell state, adds to dx and to the
  /// parameters' gradients, and makes dh and dc those of the step before.
  void backward(const double* x, const Step& before, const Step& step, Values& dh, Values& dc,
                double* dx, Parameters d) const {
    Values dh_before(h_), dc_before(h_);
    for (std::size_t o = 0; o < h_; ++o) {
      const auto gate = [&](std::size_t number) { return step.gates[number * h_ + o]; };
      // dz, the gradient before the gate's own function, reaches x and, times `scale`, h.
      const auto through = [&](std::size_t number, double dz, double scale = 1) {
        d.b[number * h_ + o] += dz;
        for (std::size_t i = 0; i < in_; ++i) {
          const std::size_t weight = (i * g_ + number) * h_ + o;
          d.w[weight] += dz * x[i];
          dx[i] += dz * p_.w[weight];
        }
        for (std::size_t i = 0; i < h_; ++i) {
          const std::size_t weight = (i * g_ + number) * h_ + o;
          d.u[weight] += dz * scale * before.h[i];
          dh_before[i] += dz * scale * p_.u[weight];
        }
      };
      switch (cell_) {
        case RnnCell::vanilla:
          through(0, dh[o] * (1 - gate(0) * gate(0)));
          break;
        case RnnCell::lstm: {
          const double t = std::tanh(step.c[o]);
          const double dc_now = dc[o] + dh[o] * gate(3) * (1 - t * t);
          through(0, dc_now * gate(2) * gate(0) * (1 - gate(0)));
          through(1, dc_now * before.c[o] * gate(1) * (1 - gate(1)));
          through(2, dc_now * gate(0) * (1 - gate(2) * gate(2)));
          through(3, dh[o] * t * gate(3) * (1 - gate(3)));
          dc_before[o] = dc_now * gate(1);
          break;
        }
        case RnnCell::gru: {
          const double dz = dh[o] * (1 - gate(0)) * (1 - gate(2) * gate(2));
          through(0, dh[o] * (before.h[o] - gate(2)) * gate(0) * (1 - gate(0)));
          through(1, dz * step.product[o] * gate(1) * (1 - gate(1)));
          through(2, dz, gate(1));
          d.b[3 * h_ + o] += dz * gate(1);
          dh_before[o] += dh[o] * gate(0);
          break;
        }
      }
    }
    dh = std::move(dh_before);
    dc = std::move(dc_before);
  }

 private:
  RnnCell cell_;
  std::size_t in_, h_, g_;
  Parameters p_;
};

/// Where the direction's part of each tensor begins.
Parameters part(Values& w, Values& u, Values& b, std::size_t direction, std::size_t directions) {
  return {w.data() + direction * (w.size() / directions),
          u.data() + direction * (u.size() / directions),
          b.data() + direction * (b.size() / directions)};
}

struct LayerGradients {
  Values w, u, b, x;
};

/// The output of one layer from its input x [steps, batch, in]; with dy, its gradients too.
Values run_layer(const RnnShape& s, std::int64_t layer, const Operands& operands, const Values& x,
                 const Values* dy, LayerGradients* gradients) {
  const auto steps = static_cast<std::size_t>(s.steps), batch = static_cast<std::size_t>(s.batch),
             in = static_cast<std::size_t>(s.input_of(layer)),
             hidden = static_cast<std::size_t>(s.hidden_features),
             directions = static_cast<std::size_t>(s.directions());
  Values w = operands.at(fmt::format("weights_layer_{}", layer)),
         u = operands.at(fmt::format("weights_iter_{}", layer)),
         b = operands.at(fmt::format("bias_{}", layer)), y(steps * batch * directions * hidden);
  if (gradients != nullptr) {
    *gradients = {Values(w.size()), Values(u.size()), Values(b.size()), Values(x.size())};
  }
  for (std::size_t d = 0; d < directions; ++d) {
    const Direction direction(s, in, part(w, u, b, d, directions));
    // The second direction begins at the last step.
    const auto time = [&](std::size_t t) { return d == 0 ? t : steps - 1 - t; };
    for (std::size_t n = 0; n < batch; ++n) {
      const auto x_at = [&](std::size_t t) { return (time(t) * batch + n) * in; };
      const auto y_at = [&](std::size_t t) {
        return ((time(t) * batch + n) * directions + d) * hidden;
      };
      std::vector<Step> done{direction.start()};
      for (std::size_t t = 0; t < steps; ++t) {
        done.push_back(direction.forward(x.data() + x_at(t), done.back()));
        for (std::size_t o = 0; o < hidden; ++o) y[y_at(t) + o] = done.back().h[o];
      }
      if (gradients == nullptr) continue;
      Values dh(hidden), dc(hidden);
      for (std::size_t t = steps; t-- > 0;) {
        for (std::size_t o = 0; o < hidden; ++o) dh[o] += (*dy)[y_at(t) + o];
        direction.backward(x.data() + x_at(t), done[t], done[t + 1], dh, dc,
                           gradients->x.data() + x_at(t),
                           part(gradients->w, gradients->u, gradients->b, d, directions));
      }
    }
  }
  return y;
}

}  // namespace

Operands rnn_reference(const Task& task, const Operands& operands) {
  const RnnShape s = rnn_shape(task.layer);
  std::vector<Values> inputs{operands.at("src")};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    inputs.push_back(run_layer(s, i, operands, inputs.back(), nullptr, nullptr));
  }
  if (task.pass == Pass::forward) return {{"dst", std::move(inputs.back())}};
  Operands results;
  Values dy = operands.at("diff_dst");
  for (std::int64_t i = s.layers; i-- > 0;) {
    LayerGradients gradients;
    run_layer(s, i, operands, inputs[static_cast<std::size_t>(i)], &dy, &gradients);
    results[fmt::format("diff_weights_layer_{}", i)] = std::move(gradients.w);
    results[fmt::format("diff_weights_iter_{}", i)] = std::move(gradients.u);
    results[fmt::format("diff_bias_{}", i)] = std::move(gradients.b);
    dy = std::move(gradients.x);
  }
  results["diff_src"] = std::move(dy);
  return results;
}

}  // namespace forecost
