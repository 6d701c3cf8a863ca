#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace forecost {

/// Shape of one item of a batch: a vector {features}, a sequence {positions, features} or an image
/// {channels, height, width}.
class ItemShape {
 public:
  ItemShape() = default;
  ItemShape(std::initializer_list<std::int64_t> sides) : sides_(sides) {}
  explicit ItemShape(std::vector<std::int64_t> sides) : sides_(std::move(sides)) {}

  const std::vector<std::int64_t>& sides() const { return sides_; }
  std::int64_t elements() const;
  bool is_sequence() const { return sides_.size() == 2; }
  /// "3x224x224".
  std::string text() const;

  struct Image {
    std::int64_t channels, height, width;
  };
  /// A vector is an image of one pixel. Throws UsageError for a sequence.
  Image image() const;

  struct Sequence {
    std::int64_t positions, features;
  };
  /// Throws UsageError unless it is one.
  Sequence sequence() const;

  friend bool operator==(const ItemShape&, const ItemShape&) = default;

 private:
  std::vector<std::int64_t> sides_;
};

}  // namespace forecost
