#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The one wrapper over HDF5. Files are built in memory, so that a full disk meets our own checked
// write, not the library's cache, and read from memory or from a file that is held open: what HDF5
// parses is exactly what was verified, and the library takes no file locks. Every failed call
// throws one line with the library's own explanation: DataError from a file that was opened,
// EnvironmentError from one that is being made.

namespace forecost::h5 {

/// An HDF5 identifier that is closed with its last copy.
class Handle {
 public:
  Handle() = default;
  Handle(std::int64_t id, int (*close)(std::int64_t));
  std::int64_t id() const { return id_ == nullptr ? -1 : *id_; }

 private:
  std::shared_ptr<const std::int64_t> id_;
};

/// What a message says of an object: "FILE: /group/name".
struct Place {
  std::string file, path;
  bool opened = false;  ///< read from a file, so failures are the data's
  /// Of a file that was opened: what HDF5 reads from as long as any of its objects lives.
  std::shared_ptr<const void> source = {};
};

/// Attributes of a group or dataset. Readers throw DataError if absent or of another type.
class Object {
 public:
  /// "FILE: /group/name", for messages.
  std::string where() const;
  /// The last part of its path.
  std::string name() const;
  void set_attribute(const std::string& name, std::string_view value);
  void set_attribute(const std::string& name, const char* value);
  void set_attribute(const std::string& name, std::int64_t value);
  void set_attribute(const std::string& name, double value);
  void set_attribute(const std::string& name, std::span<const std::uint8_t> values);
  bool has_attribute(const std::string& name) const;
  std::string string_attribute(const std::string& name) const;
  std::int64_t int_attribute(const std::string& name) const;
  double double_attribute(const std::string& name) const;
  std::vector<std::uint8_t> bytes_attribute(const std::string& name) const;

 protected:
  Object(Handle handle, Place place) : place_(std::move(place)), handle_(std::move(handle)) {}
  Place place_;
  Handle handle_;
};

/// T as in Group.
class Dataset : public Object {
 public:
  /// Number of elements; it must be 1-D.
  std::size_t size() const;
  /// A part of a 1-D dataset, from element `first` on, which must be inside it. Whole chunks at a
  /// time (rows_per_chunk) are inflated and deflated once.
  template <class T>
  void write(std::size_t first, std::span<const T> values);
  template <class T>
  void read(std::size_t first, std::span<T> values) const;
  /// None may be longer than the column is wide.
  void write_strings(std::size_t first, std::span<const std::string> values);
  void read_strings(std::size_t first, std::span<std::string> values) const;
  /// Bytes on disk, compressed.
  std::size_t stored_bytes() const;

 private:
  friend class Group;
  using Object::Object;
};

/// Elements of one chunk of a column, but of columns of long strings, whose chunks have fewer.
/// Chosen by measurement: bench/corpus.
inline constexpr std::size_t rows_per_chunk = 16384;

/// Row-major.
template <class T>
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<T> values;
};

/// A group with its datasets. T is float, double, int32_t, int64_t, uint8_t, uint32_t or uint64_t;
/// reading never narrows: the stored type must fit into T, else DataError.
class Group : public Object {
 public:
  /// Sorted names of what lies in this file; see foreign().
  std::vector<std::string> groups() const;
  std::vector<std::string> datasets() const;
  bool has_group(const std::string& name) const;
  bool has_dataset(const std::string& name) const;
  /// What may lie elsewhere: soft and external links, virtual datasets, raw data
  /// in other files; one line each, "FILE: /group/name: what".
  std::vector<std::string> foreign() const;
  Group group(const std::string& name) const;
  Group create_group(const std::string& name);
  Dataset dataset(const std::string& name) const;

  /// A dimension scale that columns of one length share (netCDF's "dimension without variable"), so
  /// that xarray sees them as one table.
  void create_dimension(const std::string& name, std::size_t size);
  /// A 1-D column of `size` elements, to be written in parts: chunked, shuffled and deflated,
  /// extendible; attached to the dimension if one is named. An empty column is fine.
  template <class T>
  Dataset create_column(const std::string& name, std::size_t size,
                        const std::string& dimension = {});
  /// UTF-8 strings of at most `width` bytes, padded with zero bytes: trailing zero bytes are lost.
  Dataset create_string_column(const std::string& name, std::size_t size, std::size_t width,
                               const std::string& dimension = {});
  /// The same, written at once.
  template <class T>
  Dataset write(const std::string& name, std::span<const T> values,
                const std::string& dimension = {});
  template <class T>
  Dataset write(const std::string& name, const std::vector<T>& values,
                const std::string& dimension = {}) {
    return write(name, std::span<const T>(values), dimension);
  }
  Dataset write_strings(const std::string& name, std::span<const std::string> values,
                        const std::string& dimension = {});
  template <class T>
  std::vector<T> read(const std::string& name) const;
  std::vector<std::string> read_strings(const std::string& name) const;
  /// Number of elements of a 1-D dataset.
  std::size_t size(const std::string& name) const;

  /// A 2-D dataset, rows x columns, as it is (weights do not compress). Throws std::logic_error if
  /// `values` has another number of elements.
  template <class T>
  Dataset write_matrix(const std::string& name, std::span<const T> values, std::size_t rows,
                       std::size_t columns);
  template <class T>
  Matrix<T> read_matrix(const std::string& name) const;

 protected:
  using Object::Object;

 private:
  std::vector<std::string> link_names() const;
  bool is_hard_link(const std::string& name) const;
  std::vector<std::string> children(int kind) const;
  bool has_child(const std::string& name, int kind) const;
  Place child(const std::string& name) const;
};

/// A file, which is also its root group.
class File : public Group {
 public:
  /// A new file in memory; `name` is for messages.
  static File create(const std::string& name);
  /// A file, read part by part; throws EnvironmentError if it cannot be read, DataError if it is
  /// not HDF5.
  static File open(const std::filesystem::path& file);
  /// The content of a file that was read, and perhaps verified, by the caller.
  static File of_bytes(std::string bytes, const std::string& name);
  /// A file that the caller holds open, and has perhaps verified: read part by part, in bounded
  /// memory. `held` keeps the descriptor open as long as any object of the file lives.
  static File of_descriptor(int descriptor, std::shared_ptr<const void> held,
                            const std::string& name);

  /// The content of a file that was created, as it is to lie on disk.
  std::string bytes() const;
  /// Replaces `file` atomically (core/file.hpp); throws EnvironmentError.
  void save(const std::filesystem::path& file) const;

 private:
  File(Handle handle, Handle root, Place place)
      : Group(std::move(root), std::move(place)), file_(std::move(handle)) {}
  Handle file_;
};

/// The root attribute `schema`, "" if the file cannot be read, is not HDF5 or has none.
std::string schema_of(const std::filesystem::path& file);

}  // namespace forecost::h5
