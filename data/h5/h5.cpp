#include "data/h5/h5.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost::h5 {

namespace {

// The library's cache of chunks: a larger chunk is inflated and deflated again with every batch.
constexpr std::size_t chunk_bytes_max = 1U << 20;
constexpr std::size_t string_batch_bytes = 16U << 20;
constexpr unsigned deflate_level = 2;  // 4 takes twice the time for 2 % less
constexpr std::size_t memory_increment = 4U << 20;
// A damaged header must not make us allocate the machine's memory.
constexpr double column_bytes_max = 256e9;

herr_t collect_message(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr && *error->desc != '\0') {
    auto& all = *static_cast<std::string*>(text);
    all += (all.empty() ? "" : "; ") + std::string(error->desc);
  }
  return 0;
}

[[noreturn]] void fail(const Place& place, const std::string& what) {
  const std::string message =
      fmt::format("{}: {}{}{}", place.file, place.path, place.path.empty() ? "" : ": ", what);
  if (place.opened) throw DataError(message);
  throw EnvironmentError(message);
}

/// The result of an HDF5 call, or an exception with the library's error stack in it.
template <class T>
T check(T result, const Place& place, const char* what) {
  if (result >= 0) return result;
  std::string stack;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &collect_message, &stack);
  H5Eclear2(H5E_DEFAULT);
  fail(place, fmt::format("{}{}", what, stack.empty() ? "" : " (HDF5: " + stack + ")"));
}

template <class F>
Handle own(hid_t id, F, const Place& place, const char* what) {
  return Handle(check(id, place, what), [](std::int64_t h) { return static_cast<int>(F{}(h)); });
}

struct CloseFile {
  herr_t operator()(hid_t id) const { return H5Fclose(id); }
};
struct CloseGroup {
  herr_t operator()(hid_t id) const { return H5Gclose(id); }
};
struct CloseDataset {
  herr_t operator()(hid_t id) const { return H5Dclose(id); }
};
struct CloseSpace {
  herr_t operator()(hid_t id) const { return H5Sclose(id); }
};
struct CloseType {
  herr_t operator()(hid_t id) const { return H5Tclose(id); }
};
struct CloseAttribute {
  herr_t operator()(hid_t id) const { return H5Aclose(id); }
};
struct CloseList {
  herr_t operator()(hid_t id) const { return H5Pclose(id); }
};

/// By default the library prints every error to stderr, once per level of its stack.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

template <class T>
hid_t native_type();
template <>
hid_t native_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t native_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
hid_t native_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
hid_t native_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t native_type<std::uint8_t>() {
  return H5T_NATIVE_UINT8;
}
template <>
hid_t native_type<std::uint32_t>() {
  return H5T_NATIVE_UINT32;
}
template <>
hid_t native_type<std::uint64_t>() {
  return H5T_NATIVE_UINT64;
}

Handle string_type(std::size_t width, const Place& place) {
  Handle type = own(H5Tcopy(H5T_C_S1), CloseType{}, place, "no string type");
  check(H5Tset_size(type.id(), std::max<std::size_t>(width, 1)), place, "no string type");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), place, "no string type");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), place, "no string type");
  return type;
}

/// Attribute access is by the name's handle; scalar or 1-D.
void put_attribute(hid_t object, const Place& place, const std::string& name, hid_t type,
                   const void* value, std::size_t count) {
  const hsize_t dims[1] = {count};
  const Handle space = own(count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, dims, nullptr),
                           CloseSpace{}, place, "no attribute space");
  if (check(H5Aexists(object, name.c_str()), place, "attributes cannot be read") > 0) {
    check(H5Adelete(object, name.c_str()), place, "an attribute cannot be replaced");
  }
  const Handle attribute =
      own(H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
          CloseAttribute{}, place, "an attribute cannot be created");
  check(H5Awrite(attribute.id(), type, value), place, "an attribute cannot be written");
}

struct OpenAttribute {
  Handle attribute, type;
  std::size_t elements = 0;
};

OpenAttribute get_attributes(hid_t object, const Place& place, const std::string& name,
                             H5T_class_t wanted, const char* expected) {
  if (check(H5Aexists(object, name.c_str()), place, "attributes cannot be read") == 0) {
    fail(place, fmt::format("attribute '{}' is missing", name));
  }
  OpenAttribute open;
  open.attribute = own(H5Aopen(object, name.c_str(), H5P_DEFAULT), CloseAttribute{}, place,
                       "an attribute cannot be opened");
  open.type = own(H5Aget_type(open.attribute.id()), CloseType{}, place, "an attribute has no type");
  const Handle space =
      own(H5Aget_space(open.attribute.id()), CloseSpace{}, place, "an attribute has no extent");
  open.elements = static_cast<std::size_t>(
      check(H5Sget_simple_extent_npoints(space.id()), place, "an attribute has no extent"));
  if (H5Tget_class(open.type.id()) != wanted) {
    fail(place, fmt::format("attribute '{}' is not {}", name, expected));
  }
  return open;
}

OpenAttribute get_attribute(hid_t object, const Place& place, const std::string& name,
                            H5T_class_t wanted, const char* expected) {
  OpenAttribute open = get_attributes(object, place, name, wanted, expected);
  if (open.elements != 1) fail(place, fmt::format("attribute '{}' is not {}", name, expected));
  return open;
}

/// Throws unless values stored as `stored` fit into T.
template <class T>
void check_type(hid_t stored, const Place& place) {
  const bool real = std::is_floating_point_v<T>;
  const bool fits =
      H5Tget_class(stored) == (real ? H5T_FLOAT : H5T_INTEGER) &&
      H5Tget_size(stored) <= sizeof(T) &&
      (real || H5Tget_sign(stored) == (std::is_signed_v<T> ? H5T_SGN_2 : H5T_SGN_NONE));
  if (!fits) {
    fail(place, fmt::format("expected {} of at most {} bits",
                            real ? "floating-point numbers"
                                 : (std::is_signed_v<T> ? "signed integers" : "unsigned integers"),
                            8 * sizeof(T)));
  }
}

struct OpenDataset {
  Handle dataset, type, space;
  std::vector<hsize_t> dims;
  std::size_t elements = 1;
};

OpenDataset describe_dataset(Handle dataset, const Place& place, int rank) {
  OpenDataset open;
  open.dataset = std::move(dataset);
  open.type = own(H5Dget_type(open.dataset.id()), CloseType{}, place, "the dataset has no type");
  open.space =
      own(H5Dget_space(open.dataset.id()), CloseSpace{}, place, "the dataset has no extent");
  if (check(H5Sget_simple_extent_ndims(open.space.id()), place, "the dataset has no extent") !=
      rank) {
    fail(place, fmt::format("expected a {}-D dataset", rank));
  }
  open.dims.resize(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(open.space.id(), open.dims.data(), nullptr), place,
        "the dataset has no extent");
  double bytes = static_cast<double>(H5Tget_size(open.type.id()));
  for (const hsize_t n : open.dims) {
    bytes *= static_cast<double>(n);
    open.elements *= n;
  }
  if (bytes > column_bytes_max) fail(place, fmt::format("claims {:.0f} bytes: damaged", bytes));
  return open;
}

OpenDataset open_dataset(hid_t group, const std::string& name, const Place& place, int rank) {
  return describe_dataset(
      own(H5Dopen2(group, name.c_str(), H5P_DEFAULT), CloseDataset{}, place, "no such dataset"),
      place, rank);
}

/// The width of a dataset of strings.
std::size_t string_width(hid_t type, const Place& place) {
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0) {
    fail(place, "expected strings of fixed length");
  }
  return H5Tget_size(type);
}

/// A chunked 1-D dataset of `size` elements, attached to a dimension of the group if one is named.
Handle create_column(hid_t group, const std::string& name, hid_t type, std::size_t size,
                     const std::string& dimension, const Place& place) {
  const hsize_t dims[1] = {size}, unlimited[1] = {H5S_UNLIMITED};
  const hsize_t fitting = std::max<std::size_t>(chunk_bytes_max / H5Tget_size(type), 1);
  const hsize_t chunk[1] = {
      std::clamp<hsize_t>(size, 1, std::min<hsize_t>(rows_per_chunk, fitting))};
  const Handle space = own(H5Screate_simple(1, dims, unlimited), CloseSpace{}, place, "no extent");
  const Handle list = own(H5Pcreate(H5P_DATASET_CREATE), CloseList{}, place, "no property list");
  check(H5Pset_chunk(list.id(), 1, chunk), place, "no chunks");
  check(H5Pset_shuffle(list.id()), place, "no shuffle filter");
  check(H5Pset_deflate(list.id(), deflate_level), place, "no deflate filter");
  check(H5Pset_obj_track_times(list.id(), false), place,
        "no time switch");  // same rows, same bytes
  Handle dataset =
      own(H5Dcreate2(group, name.c_str(), type, space.id(), H5P_DEFAULT, list.id(), H5P_DEFAULT),
          CloseDataset{}, place, "the dataset cannot be created");
  if (!dimension.empty()) {
    const Handle scale = own(H5Dopen2(group, dimension.c_str(), H5P_DEFAULT), CloseDataset{}, place,
                             "its dimension does not exist");
    check(H5DSattach_scale(dataset.id(), scale.id(), 0), place, "it cannot join its dimension");
  }
  return dataset;
}

Handle file_access(const Place& place) {
  Handle list = own(H5Pcreate(H5P_FILE_ACCESS), CloseList{}, place, "no property list");
  // Datasets and groups that are still open do not keep the file open behind our back.
  check(H5Pset_fclose_degree(list.id(), H5F_CLOSE_STRONG), place, "no close degree");
  return list;
}

Handle memory_file_access(const Place& place) {
  Handle list = file_access(place);
  check(H5Pset_fapl_core(list.id(), memory_increment, false), place, "no memory file");
  return list;
}

/// The elements [first, first + count) of a 1-D dataset in the file, and room for them in memory.
struct Part {
  Handle file, memory;
};
Part select_part(hid_t dataset, std::size_t first, std::size_t count, const Place& place) {
  const hsize_t start[1] = {first}, size[1] = {count};
  Part part;
  part.memory = own(H5Screate_simple(1, size, nullptr), CloseSpace{}, place, "no extent");
  part.file = own(H5Dget_space(dataset), CloseSpace{}, place, "no extent");
  check(H5Sselect_hyperslab(part.file.id(), H5S_SELECT_SET, start, nullptr, size, nullptr), place,
        "no selection");
  return part;
}

}  // namespace

Handle::Handle(std::int64_t id, int (*close)(std::int64_t))
    : id_(new std::int64_t(id), [close](const std::int64_t* held) {
        if (*held >= 0 && close(*held) < 0) H5Eclear2(H5E_DEFAULT);
        delete held;
      }) {}

std::string Object::where() const {
  return fmt::format("{}: {}", place_.file, place_.path.empty() ? "/" : place_.path);
}

std::string Object::name() const { return place_.path.substr(place_.path.rfind('/') + 1); }

// --- attributes ---

void Object::set_attribute(const std::string& name, std::string_view value) {
  const Handle type = string_type(value.size(), place_);
  const std::string padded(value.empty() ? std::string(1, '\0') : std::string(value));
  put_attribute(handle_.id(), place_, name, type.id(), padded.data(), 0);
}

void Object::set_attribute(const std::string& name, const char* value) {
  set_attribute(name, std::string_view(value));
}

void Object::set_attribute(const std::string& name, std::int64_t value) {
  put_attribute(handle_.id(), place_, name, H5T_NATIVE_INT64, &value, 0);
}

void Object::set_attribute(const std::string& name, double value) {
  put_attribute(handle_.id(), place_, name, H5T_NATIVE_DOUBLE, &value, 0);
}

void Object::set_attribute(const std::string& name, std::span<const std::uint8_t> values) {
  put_attribute(handle_.id(), place_, name, H5T_NATIVE_UINT8, values.data(), values.size());
}

bool Object::has_attribute(const std::string& name) const {
  return check(H5Aexists(handle_.id(), name.c_str()), place_, "attributes cannot be read") > 0;
}

std::string Object::string_attribute(const std::string& name) const {
  const auto open = get_attribute(handle_.id(), place_, name, H5T_STRING, "one string");
  if (H5Tis_variable_str(open.type.id()) != 0) {
    fail(place_, fmt::format("attribute '{}' is not a string of fixed length", name));
  }
  std::string value(H5Tget_size(open.type.id()), '\0');
  check(H5Aread(open.attribute.id(), open.type.id(), value.data()), place_,
        "an attribute cannot be read");
  value.erase(value.find_last_not_of('\0') + 1);
  return value;
}

std::int64_t Object::int_attribute(const std::string& name) const {
  const auto open = get_attribute(handle_.id(), place_, name, H5T_INTEGER, "one integer");
  std::int64_t value = 0;
  check(H5Aread(open.attribute.id(), H5T_NATIVE_INT64, &value), place_,
        "an attribute cannot be read");
  return value;
}

double Object::double_attribute(const std::string& name) const {
  const auto open =
      get_attribute(handle_.id(), place_, name, H5T_FLOAT, "one floating-point number");
  double value = 0;
  check(H5Aread(open.attribute.id(), H5T_NATIVE_DOUBLE, &value), place_,
        "an attribute cannot be read");
  return value;
}

std::vector<std::uint8_t> Object::bytes_attribute(const std::string& name) const {
  const auto open = get_attributes(handle_.id(), place_, name, H5T_INTEGER, "bytes");
  if (H5Tget_size(open.type.id()) != 1 || H5Tget_sign(open.type.id()) != H5T_SGN_NONE) {
    fail(place_, fmt::format("attribute '{}' is not bytes", name));
  }
  std::vector<std::uint8_t> values(open.elements);
  if (!values.empty()) {
    check(H5Aread(open.attribute.id(), H5T_NATIVE_UINT8, values.data()), place_,
          "an attribute cannot be read");
  }
  return values;
}

// --- columns ---

std::size_t Dataset::size() const { return describe_dataset(handle_, place_, 1).elements; }

template <class T>
void Dataset::write(std::size_t first, std::span<const T> values) {
  if (values.empty()) return;
  const Part part = select_part(handle_.id(), first, values.size(), place_);
  check(H5Dwrite(handle_.id(), native_type<T>(), part.memory.id(), part.file.id(), H5P_DEFAULT,
                 values.data()),
        place_, "the dataset cannot be written");
}

template <class T>
void Dataset::read(std::size_t first, std::span<T> values) const {
  check_type<T>(describe_dataset(handle_, place_, 1).type.id(), place_);
  if (values.empty()) return;
  const Part part = select_part(handle_.id(), first, values.size(), place_);
  check(H5Dread(handle_.id(), native_type<T>(), part.memory.id(), part.file.id(), H5P_DEFAULT,
                values.data()),
        place_, "the dataset cannot be read");
}

namespace {

/// Calls `transfer(begin, count)` for parts of `size` strings, so that a few long strings do not
/// blow the padded copy up.
template <class F>
void in_batches(std::size_t size, std::size_t width, F transfer) {
  const std::size_t batch = std::max<std::size_t>(string_batch_bytes / width, 1);
  for (std::size_t begin = 0; begin < size; begin += batch) {
    transfer(begin, std::min(batch, size - begin));
  }
}

}  // namespace

void Dataset::write_strings(std::size_t first, std::span<const std::string> values) {
  const OpenDataset open = describe_dataset(handle_, place_, 1);
  const std::size_t width = string_width(open.type.id(), place_);
  std::vector<char> padded;
  in_batches(values.size(), width, [&](std::size_t begin, std::size_t count) {
    padded.assign(count * width, '\0');
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& value = values[begin + i];
      if (value.size() > width) throw std::logic_error("write_strings: " + where() + ": too long");
      std::memcpy(&padded[i * width], value.data(), value.size());
    }
    const Part part = select_part(handle_.id(), first + begin, count, place_);
    check(H5Dwrite(handle_.id(), open.type.id(), part.memory.id(), part.file.id(), H5P_DEFAULT,
                   padded.data()),
          place_, "the dataset cannot be written");
  });
}

void Dataset::read_strings(std::size_t first, std::span<std::string> values) const {
  const OpenDataset open = describe_dataset(handle_, place_, 1);
  const std::size_t width = string_width(open.type.id(), place_);
  std::vector<char> padded;
  in_batches(values.size(), width, [&](std::size_t begin, std::size_t count) {
    padded.resize(count * width);
    const Part part = select_part(handle_.id(), first + begin, count, place_);
    check(H5Dread(handle_.id(), open.type.id(), part.memory.id(), part.file.id(), H5P_DEFAULT,
                  padded.data()),
          place_, "the dataset cannot be read");
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view text(&padded[i * width], width);
      values[begin + i] = text.substr(0, text.find_last_not_of('\0') + 1);
    }
  });
}

std::size_t Dataset::stored_bytes() const { return H5Dget_storage_size(handle_.id()); }

// --- groups ---

Place Group::child(const std::string& name) const {
  return {place_.file, place_.path + "/" + name, place_.opened, place_.source};
}

bool Group::is_hard_link(const std::string& name) const {
  H5L_info_t link;
  check(H5Lget_info(handle_.id(), name.c_str(), &link, H5P_DEFAULT), place_,
        "links cannot be read");
  return link.type == H5L_TYPE_HARD;
}

std::vector<std::string> Group::link_names() const {
  H5G_info_t info;
  check(H5Gget_info(handle_.id(), &info), place_, "the group cannot be listed");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto length = check(H5Lget_name_by_idx(handle_.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                                 nullptr, 0, H5P_DEFAULT),
                              place_, "the group cannot be listed");
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    check(H5Lget_name_by_idx(handle_.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(),
                             name.size(), H5P_DEFAULT),
          place_, "the group cannot be listed");
    name.pop_back();
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Group::children(int kind) const {
  std::vector<std::string> names = link_names();
  std::erase_if(names, [&](const std::string& name) { return !has_child(name, kind); });
  return names;
}

bool Group::has_child(const std::string& name, int kind) const {
  if (check(H5Lexists(handle_.id(), name.c_str(), H5P_DEFAULT), place_, "links cannot be read") ==
      0) {
    return false;
  }
  if (!is_hard_link(name)) return false;  // of another file perhaps, or of nothing
  H5O_info_t info;
  check(H5Oget_info_by_name2(handle_.id(), name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT),
        place_, "objects cannot be read");
  return static_cast<int>(info.type) == kind;
}

std::vector<std::string> Group::foreign() const {
  std::vector<std::string> lines;
  const auto tell = [&](const std::string& name, const std::string& what) {
    lines.push_back(fmt::format("{}: {}/{}: {}: copy what it stands for into this file",
                                place_.file, place_.path, name, what));
  };
  for (const std::string& name : link_names()) {
    if (!is_hard_link(name)) {
      tell(name, "a soft link, or one into another file");
      continue;
    }
    if (!has_dataset(name)) continue;
    const Place place = child(name);
    const Handle list = own(H5Dget_create_plist(dataset(name).handle_.id()), CloseList{}, place,
                            "no property list");
    if (H5Pget_layout(list.id()) == H5D_VIRTUAL) tell(name, "a virtual dataset");
    if (H5Pget_external_count(list.id()) > 0) tell(name, "its data lie in another file");
  }
  return lines;
}

std::vector<std::string> Group::groups() const { return children(H5O_TYPE_GROUP); }
std::vector<std::string> Group::datasets() const { return children(H5O_TYPE_DATASET); }
bool Group::has_group(const std::string& name) const { return has_child(name, H5O_TYPE_GROUP); }
bool Group::has_dataset(const std::string& name) const { return has_child(name, H5O_TYPE_DATASET); }

Group Group::group(const std::string& name) const {
  const Place place = child(name);
  return Group(
      own(H5Gopen2(handle_.id(), name.c_str(), H5P_DEFAULT), CloseGroup{}, place, "no such group"),
      place);
}

Group Group::create_group(const std::string& name) {
  const Place place = child(name);
  return Group(own(H5Gcreate2(handle_.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                   CloseGroup{}, place, "the group cannot be created"),
               place);
}

Dataset Group::dataset(const std::string& name) const {
  const Place place = child(name);
  return Dataset(own(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), CloseDataset{}, place,
                     "no such dataset"),
                 place);
}

void Group::create_dimension(const std::string& name, std::size_t size) {
  const Place place = child(name);
  const Handle scale =
      forecost::h5::create_column(handle_.id(), name, H5T_NATIVE_FLOAT, size, {}, place);
  // netCDF's way of saying that a dimension has no values of its own.
  const std::string marker =
      fmt::format("This is a netCDF dimension but not a netCDF variable.{:10}", size);
  check(H5DSset_scale(scale.id(), marker.c_str()), place, "the dimension cannot be made");
}

template <class T>
Dataset Group::create_column(const std::string& name, std::size_t size,
                             const std::string& dimension) {
  const Place place = child(name);
  return Dataset(
      forecost::h5::create_column(handle_.id(), name, native_type<T>(), size, dimension, place),
      place);
}

Dataset Group::create_string_column(const std::string& name, std::size_t size, std::size_t width,
                                    const std::string& dimension) {
  const Place place = child(name);
  const Handle type = string_type(width, place);
  Dataset dataset(
      forecost::h5::create_column(handle_.id(), name, type.id(), size, dimension, place), place);
  dataset.set_attribute("_Encoding", "utf-8");  // else xarray gives bytes
  return dataset;
}

template <class T>
Dataset Group::write(const std::string& name, std::span<const T> values,
                     const std::string& dimension) {
  Dataset dataset = create_column<T>(name, values.size(), dimension);
  dataset.write(0, values);
  return dataset;
}

template <class T>
std::vector<T> Group::read(const std::string& name) const {
  const Dataset from = dataset(name);
  std::vector<T> values(from.size());
  from.read(0, std::span<T>(values));
  return values;
}

Dataset Group::write_strings(const std::string& name, std::span<const std::string> values,
                             const std::string& dimension) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  Dataset dataset = create_string_column(name, values.size(), width, dimension);
  dataset.write_strings(0, values);
  return dataset;
}

std::vector<std::string> Group::read_strings(const std::string& name) const {
  const Dataset from = dataset(name);
  std::vector<std::string> values(from.size());
  from.read_strings(0, values);
  return values;
}

std::size_t Group::size(const std::string& name) const {
  return open_dataset(handle_.id(), name, child(name), 1).elements;
}

template <class T>
Dataset Group::write_matrix(const std::string& name, std::span<const T> values, std::size_t rows,
                            std::size_t columns) {
  if (values.size() != rows * columns)
    throw std::logic_error("write_matrix: " + name + ": wrong size");
  const Place place = child(name);
  const hsize_t dims[2] = {rows, columns};
  const Handle space = own(H5Screate_simple(2, dims, nullptr), CloseSpace{}, place, "no extent");
  const Handle list = own(H5Pcreate(H5P_DATASET_CREATE), CloseList{}, place, "no property list");
  check(H5Pset_obj_track_times(list.id(), false), place, "no time switch");
  Handle dataset = own(H5Dcreate2(handle_.id(), name.c_str(), native_type<T>(), space.id(),
                                  H5P_DEFAULT, list.id(), H5P_DEFAULT),
                       CloseDataset{}, place, "the dataset cannot be created");
  if (!values.empty()) {
    check(H5Dwrite(dataset.id(), native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          place, "the dataset cannot be written");
  }
  return Dataset(std::move(dataset), place);
}

template <class T>
Matrix<T> Group::read_matrix(const std::string& name) const {
  const Place place = child(name);
  const OpenDataset open = open_dataset(handle_.id(), name, place, 2);
  check_type<T>(open.type.id(), place);
  Matrix<T> matrix{open.dims[0], open.dims[1], std::vector<T>(open.elements)};
  if (!matrix.values.empty()) {
    check(H5Dread(open.dataset.id(), native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                  matrix.values.data()),
          place, "the dataset cannot be read");
  }
  return matrix;
}

#define FORECOST_H5_TYPE(T)                                                                      \
  template void Dataset::write<T>(std::size_t, std::span<const T>);                              \
  template void Dataset::read<T>(std::size_t, std::span<T>) const;                               \
  template Dataset Group::create_column<T>(const std::string&, std::size_t, const std::string&); \
  template Dataset Group::write<T>(const std::string&, std::span<const T>, const std::string&);  \
  template std::vector<T> Group::read<T>(const std::string&) const;                              \
  template Dataset Group::write_matrix<T>(const std::string&, std::span<const T>, std::size_t,   \
                                          std::size_t);                                          \
  template Matrix<T> Group::read_matrix<T>(const std::string&) const;
FORECOST_H5_TYPE(float)
FORECOST_H5_TYPE(double)
FORECOST_H5_TYPE(std::int32_t)
FORECOST_H5_TYPE(std::int64_t)
FORECOST_H5_TYPE(std::uint8_t)
FORECOST_H5_TYPE(std::uint32_t)
FORECOST_H5_TYPE(std::uint64_t)
#undef FORECOST_H5_TYPE

// --- files ---

File File::create(const std::string& name) {
  silence();
  const Place place{name, "", false};
  const Handle access = memory_file_access(place);
  // HDF5 takes two memory files of one name for the same file; the list's number is this one's own.
  const std::string own_name = fmt::format("{}#{}", name, access.id());
  Handle file = own(H5Fcreate(own_name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()),
                    CloseFile{}, place, "no HDF5 file could be made in memory");
  Handle root = own(H5Gopen2(file.id(), "/", H5P_DEFAULT), CloseGroup{}, place, "no root group");
  return File(std::move(file), std::move(root), place);
}

File File::of_bytes(std::string bytes, const std::string& name) {
  silence();
  const auto held = std::make_shared<const std::string>(std::move(bytes));
  const Place place{name, "", true, held};
  if (held->empty()) fail(place, "empty file, not HDF5");
  // Read-only and not released by the library, so the const is kept.
  void* const image = const_cast<char*>(held->data());
  hid_t opened = H5LTopen_file_image(image, held->size(),
                                     H5LT_FILE_IMAGE_DONT_COPY | H5LT_FILE_IMAGE_DONT_RELEASE);
  Handle access;  // closed after the check: each call clears what the library says of the last one
  if (opened < 0) {
    // The call above has cleared it already: ask again, of a copy.
    access = memory_file_access(place);
    check(H5Pset_file_image(access.id(), image, held->size()), place, "no memory file");
    opened = H5Fopen(fmt::format("{}#{}", name, access.id()).c_str(), H5F_ACC_RDONLY, access.id());
  }
  Handle file = own(opened, CloseFile{}, place, "not an HDF5 file, or a damaged one");
  Handle root = own(H5Gopen2(file.id(), "/", H5P_DEFAULT), CloseGroup{}, place, "no root group");
  return File(std::move(file), std::move(root), place);
}

File File::open(const std::filesystem::path& file) {
  auto open = std::make_shared<const OpenFile>(file);
  const int descriptor = open->descriptor();
  return of_descriptor(descriptor, std::move(open), file.string());
}

File File::of_descriptor(int descriptor, std::shared_ptr<const void> held,
                         const std::string& name) {
  silence();
  const Place place{name, "", true, std::move(held)};
  if (::lseek(descriptor, 0, SEEK_END) == 0) fail(place, "empty file, not HDF5");
  const Handle access = file_access(place);
#if H5_VERSION_GE(1, 10, 7)
  // Some network mounts have no locks, and nobody changes a file in place.
  check(H5Pset_file_locking(access.id(), false, true), place, "no locking switch");
#endif
  // The very file that is held open, whatever has its name by now.
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  Handle file = own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), CloseFile{}, place,
                    "not an HDF5 file, or a damaged one");
  Handle root = own(H5Gopen2(file.id(), "/", H5P_DEFAULT), CloseGroup{}, place, "no root group");
  return File(std::move(file), std::move(root), place);
}

std::string File::bytes() const {
  if (place_.opened) throw std::logic_error("File::bytes: of a file that was not made here");
  check(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), place_, "the file cannot be completed");
  const auto size = check(H5Fget_file_image(file_.id(), nullptr, 0), place_, "no file image");
  std::string image(static_cast<std::size_t>(size), '\0');
  check(H5Fget_file_image(file_.id(), image.data(), image.size()), place_, "no file image");
  return image;
}

void File::save(const std::filesystem::path& file) const { replace_text(file, bytes()); }

std::string schema_of(const std::filesystem::path& file) {
  try {
    const File content = File::open(file);
    return content.has_attribute("schema") ? content.string_attribute("schema") : "";
  } catch (const std::runtime_error&) {
    return "";
  }
}

}  // namespace forecost::h5
