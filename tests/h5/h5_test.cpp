#include "data/h5/h5.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace forecost::h5 {
namespace {

namespace fs = std::filesystem;

/// Whatever a test does, errors included, nothing stays open and the library prints nothing.
class H5 : public testing::Test {
 protected:
  void SetUp() override {
    first_ = newest();
    testing::internal::CaptureStderr();
  }
  void TearDown() override {
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
    const auto last = newest();
    for (std::size_t kind = 0; kind < last.size(); ++kind) {
      EXPECT_GT(last[kind], first_[kind]);
      for (hid_t id = first_[kind]; id < last[kind]; ++id) {
        EXPECT_LE(H5Iis_valid(id), 0) << (kind == 0 ? "a dataspace" : "a property list");
      }
    }
  }

 private:
  /// Dataspaces and property lists belong to no file, and the library does not count them for us;
  /// but it numbers each kind in turn.
  static std::array<hid_t, 2> newest() {
    const hid_t space = H5Screate(H5S_NULL), list = H5Pcreate(H5P_FILE_ACCESS);
    H5Sclose(space);
    H5Pclose(list);
    return {space, list};
  }
  std::array<hid_t, 2> first_{};
};

template <class E, class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

void expect_part(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

File reopened(const File& file) { return File::of_bytes(file.bytes(), "again.h5"); }

TEST_F(H5, AttributesKeepTheirValues) {
  File file = File::create("a.h5");
  const std::string text = "µs, 时间, \"quoted\"\nsecond line";
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  const std::vector<std::uint8_t> bytes{0, 7, 255};
  file.set_attribute("text", text);
  file.set_attribute("empty", "");
  file.set_attribute("integer", lowest);
  file.set_attribute("number", 0.1);
  file.set_attribute("nan", std::nan(""));
  file.set_attribute("bytes", std::span<const std::uint8_t>(bytes));
  file.set_attribute("replaced", "a longer text");
  file.set_attribute("replaced", std::int64_t{3});
  const File again = reopened(file);
  EXPECT_EQ(again.string_attribute("text"), text);
  EXPECT_EQ(again.string_attribute("empty"), "");
  EXPECT_EQ(again.int_attribute("integer"), lowest);
  EXPECT_EQ(again.double_attribute("number"), 0.1);
  EXPECT_TRUE(std::isnan(again.double_attribute("nan")));
  EXPECT_EQ(again.bytes_attribute("bytes"), bytes);
  EXPECT_EQ(again.int_attribute("replaced"), 3);
  EXPECT_FALSE(again.has_attribute("absent"));

  // Of another type, or absent: told by place and name.
  const auto told = [&](auto read) { return message_of<DataError>([&] { read(again); }); };
  expect_part(told([](const File& f) { f.int_attribute("text"); }), "'text' is not one integer");
  expect_part(told([](const File& f) { f.string_attribute("number"); }),
              "'number' is not one string");
  expect_part(told([](const File& f) { f.double_attribute("integer"); }),
              "'integer' is not one floating-point number");
  expect_part(told([](const File& f) { f.int_attribute("bytes"); }), "'bytes' is not one integer");
  expect_part(told([](const File& f) { f.bytes_attribute("text"); }), "'text' is not bytes");
  expect_part(told([](const File& f) { f.bytes_attribute("integer"); }), "'integer' is not bytes");
  expect_part(told([](const File& f) { f.int_attribute("absent"); }),
              "again.h5: attribute 'absent' is missing");
}

template <class T>
void expect_kept() {
  constexpr std::size_t more_than_a_chunk = 40000;
  std::vector<T> values;
  for (std::size_t i = 0; i < more_than_a_chunk; ++i) {
    values.push_back(static_cast<T>(i * 2654435761U));
  }
  values.push_back(std::numeric_limits<T>::lowest());
  values.push_back(std::numeric_limits<T>::max());
  File file = File::create("a.h5");
  Group group = file.create_group("g");
  group.create_dimension("row", values.size());
  group.write("values", values, "row");
  group.write("none", std::vector<T>{});
  group.write_matrix<T>("matrix", std::span(values).first(6), 2, 3);
  group.write_matrix<T>("nothing", {}, 0, 3);
  const File again = reopened(file);
  const Group read = again.group("g");
  EXPECT_TRUE(read.read<T>("values") == values);
  EXPECT_EQ(read.size("values"), values.size());
  EXPECT_TRUE(read.read<T>("none").empty());
  const Matrix<T> matrix = read.read_matrix<T>("matrix");
  EXPECT_EQ(matrix.rows, 2U);
  EXPECT_EQ(matrix.columns, 3U);
  EXPECT_TRUE(matrix.values == std::vector<T>(values.begin(), values.begin() + 6));
  EXPECT_EQ(read.read_matrix<T>("nothing").columns, 3U);
  EXPECT_THROW(group.write_matrix<T>("wrong", values, 2, 3), std::logic_error);
}

TEST_F(H5, ColumnsAndMatricesKeepTheirValues) {
  expect_kept<float>();
  expect_kept<double>();
  expect_kept<std::int32_t>();
  expect_kept<std::int64_t>();
  expect_kept<std::uint8_t>();
  expect_kept<std::uint32_t>();
  expect_kept<std::uint64_t>();
}

TEST_F(H5, StringsKeepTheirBytes) {
  const std::vector<std::string> values{"",     "µ",        "时间 und Zeit",
                                        "a\nb", " padded ", "\xF0\x9F\x9A\x80"};
  // Of very different lengths: padded to the longest they pass through memory in batches.
  std::vector<std::string> ragged;
  for (std::size_t i = 0; i < 50; ++i) ragged.emplace_back(i * i, static_cast<char>('a' + i % 26));
  ragged.insert(ragged.begin() + 20, std::string(1U << 20, 'x'));
  File file = File::create("a.h5");
  file.write_strings("strings", values);
  file.write_strings("ragged", ragged);
  file.write_strings("none", {});
  const File again = reopened(file);
  EXPECT_EQ(again.read_strings("strings"), values);
  EXPECT_TRUE(again.read_strings("ragged") == ragged);
  EXPECT_TRUE(again.read_strings("none").empty());
  EXPECT_EQ(again.dataset("strings").string_attribute("_Encoding"), "utf-8");
}

TEST_F(H5, GroupsListWhatTheyHold) {
  File file = File::create("a.h5");
  file.create_group("b").create_group("inner");
  file.create_group("a");
  file.write("c", std::vector<double>{1});
  const File again = reopened(file);
  EXPECT_EQ(again.groups(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(again.datasets(), std::vector<std::string>{"c"});
  EXPECT_TRUE(again.has_group("b") && again.has_dataset("c"));
  EXPECT_FALSE(again.has_group("c") || again.has_dataset("b") || again.has_group("absent"));
  EXPECT_EQ(again.group("b").group("inner").where(), "again.h5: /b/inner");
  EXPECT_EQ(again.where(), "again.h5: /");
}

TEST_F(H5, NothingIsNarrowed) {
  File file = File::create("a.h5");
  file.write("i64", std::vector<std::int64_t>{1});
  file.write("u32", std::vector<std::uint32_t>{1});
  file.write("f64", std::vector<double>{1});
  file.write("f32", std::vector<float>{0.5F});
  file.write_strings("text", std::vector<std::string>{"1"});
  file.write_matrix<float>("matrix", std::vector<float>{1, 2}, 1, 2);
  const File again = reopened(file);
  const auto told = [&](auto read) { return message_of<DataError>([&] { read(again); }); };
  expect_part(told([](const File& f) { f.read<std::int32_t>("i64"); }),
              "again.h5: /i64: expected signed integers of at most 32 bits");
  expect_part(told([](const File& f) { f.read<std::int64_t>("u32"); }), "signed integers");
  expect_part(told([](const File& f) { f.read<std::uint64_t>("i64"); }), "unsigned integers");
  expect_part(told([](const File& f) { f.read<float>("f64"); }),
              "floating-point numbers of at most 32 bits");
  expect_part(told([](const File& f) { f.read<double>("i64"); }), "floating-point numbers");
  expect_part(told([](const File& f) { f.read<double>("text"); }), "floating-point numbers");
  expect_part(told([](const File& f) { f.read_strings("f64"); }), "strings of fixed length");
  expect_part(told([](const File& f) { f.read<float>("matrix"); }), "expected a 1-D dataset");
  expect_part(told([](const File& f) { f.read_matrix<float>("f32"); }), "expected a 2-D dataset");
  // What is wider holds it.
  EXPECT_EQ(again.read<double>("f32"), std::vector<double>{0.5});
  EXPECT_EQ(again.read<std::uint64_t>("u32"), std::vector<std::uint64_t>{1});
}

TEST_F(H5, ErrorsCarryPlaceAndTheLibrarysWords) {
  // Of a file that was read they are the data's, of one in the making the machine's.
  File file = File::create("made.h5");
  file.create_group("g");
  file.write("c", std::vector<double>{1});
  const File again = reopened(file);
  for (const std::string& told :
       {message_of<DataError>([&] { again.group("g").read<double>("x"); }),
        message_of<DataError>([&] { again.group("g").dataset("x"); }),
        message_of<DataError>([&] { again.group("g").size("x"); }),
        message_of<DataError>([&] { again.group("g").read_strings("x"); })}) {
    expect_part(told, "again.h5: /g/x: no such dataset (HDF5: ");
    expect_part(told, "doesn't exist");
  }
  expect_part(message_of<DataError>([&] { again.group("h"); }), "again.h5: /h: no such group");
  expect_part(message_of<DataError>([&] { again.group("c"); }), "again.h5: /c: no such group");
  const std::string twice = message_of<EnvironmentError>([&] { file.create_group("g"); });
  expect_part(twice, "made.h5: /g: the group cannot be created (HDF5: ");
  expect_part(twice, "name already exists");
  expect_part(message_of<EnvironmentError>([&] { file.write("c", std::vector<double>{2}); }),
              "made.h5: /c: the dataset cannot be created (HDF5: ");
  expect_part(message_of<EnvironmentError>([&] { file.write("d", std::vector<double>{2}, "no"); }),
              "its dimension does not exist");
  EXPECT_EQ(twice.find('\n'), std::string::npos) << "one line: " << twice;
  // The error stack of one failure is not told again with the next.
  EXPECT_EQ(message_of<EnvironmentError>([&] { file.create_group("g"); }), twice);
}

TEST_F(H5, AFileThatIsCutIsRefused) {
  File file = File::create("a.h5");
  Group group = file.create_group("g");
  group.create_dimension("row", 100);
  group.write("values", std::vector<double>(100, 0.1), "row");
  group.set_attribute("units", "s");
  const std::string bytes = file.bytes();
  std::size_t tried = 0;
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 20, ++tried) {
    const std::string told =
        message_of<DataError>([&] { File::of_bytes(bytes.substr(0, size), "cut.h5"); });
    EXPECT_EQ(told.find("cut.h5: "), 0U) << size << ": " << told;
  }
  EXPECT_GT(tried, 50U);
  expect_part(message_of<DataError>([] { File::of_bytes("", "cut.h5"); }), "empty file");
  const std::string other =
      message_of<DataError>([] { File::of_bytes(std::string(5000, 'x'), "text.h5"); });
  expect_part(other, "text.h5: not an HDF5 file, or a damaged one (HDF5: ");
  expect_part(other, "signature not found");
  expect_part(
      message_of<DataError>([&] { File::of_bytes(bytes.substr(0, bytes.size() - 1), "cut.h5"); }),
      "truncated file");
}

TEST_F(H5, FilesOnDiskAreWholeOrRefused) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("forecost-h5-{}", ::getpid());
  fs::create_directories(folder);
  File file = File::create("a.h5");
  file.write("c", std::vector<double>{1, 2});
  EXPECT_TRUE(fs::is_empty(folder));  // in memory until it is saved
  file.save(folder / "a.h5");
  EXPECT_EQ(File::open(folder / "a.h5").read<double>("c"), (std::vector<double>{1, 2}));
  expect_part(message_of<EnvironmentError>([&] { File::open(folder / "absent.h5"); }), "absent.h5");
  std::ofstream(folder / "empty.h5").flush();
  expect_part(message_of<DataError>([&] { File::open(folder / "empty.h5"); }),
              "empty.h5: empty file");
  expect_part(message_of<EnvironmentError>([&] { file.save(folder / "a.h5" / "b.h5"); }), "b.h5");
  fs::remove_all(folder);
}

TEST_F(H5, TwoFilesOfOneNameAreTwo) {
  File one = File::create("same.h5"), other = File::create("same.h5");
  one.write("c", std::vector<double>{1});
  other.write("c", std::vector<double>{2});
  const std::string bytes = one.bytes();
  const File a = File::of_bytes(bytes, "same.h5"), b = File::of_bytes(other.bytes(), "same.h5");
  EXPECT_EQ(a.read<double>("c"), std::vector<double>{1});
  EXPECT_EQ(b.read<double>("c"), std::vector<double>{2});
}

TEST_F(H5, ObjectsOutliveTheFileTheyWereReadFrom) {
  File file = File::create("a.h5");
  file.create_group("g").write("c", std::vector<double>{1}).set_attribute("units", "s");
  std::optional<File> again = reopened(file);
  const Group group = again->group("g");
  const Dataset dataset = group.dataset("c");
  again.reset();
  EXPECT_EQ(group.read<double>("c"), std::vector<double>{1});
  EXPECT_EQ(dataset.string_attribute("units"), "s");
}

/// A file as another program may write it: `fill` gets the id of the root group.
template <class F>
std::string foreign(F fill) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 1U << 16, false);
  const hid_t file = H5Fcreate("foreign", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  fill(file);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::string image(static_cast<std::size_t>(H5Fget_file_image(file, nullptr, 0)), '\0');
  H5Fget_file_image(file, image.data(), image.size());
  H5Fclose(file);
  H5Pclose(access);
  return image;
}

TEST_F(H5, ForeignFilesAreReadOrRefused) {
  const std::string image = foreign([](hid_t root) {
    H5Lcreate_external("/etc/passwd", "/", root, "outside", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", root, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t huge[1] = {hsize_t{1} << 40}, small[1] = {1}, chunk[1] = {1024};
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 1, chunk);
    const hid_t huge_space = H5Screate_simple(1, huge, nullptr);
    H5Dclose(
        H5Dcreate2(root, "huge", H5T_NATIVE_DOUBLE, huge_space, H5P_DEFAULT, list, H5P_DEFAULT));
    const hid_t text = H5Tcopy(H5T_C_S1), one = H5Screate_simple(1, small, nullptr);
    H5Tset_size(text, H5T_VARIABLE);
    H5Dclose(H5Dcreate2(root, "variable", text, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Aclose(H5Acreate2(root, "variable", text, one, H5P_DEFAULT, H5P_DEFAULT));
    const float half = 0.5F;
    const hid_t big =
        H5Dcreate2(root, "big_endian", H5T_IEEE_F32BE, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(big, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &half);
    H5Dclose(big);
    H5Tclose(text);
    H5Sclose(one);
    H5Sclose(huge_space);
    H5Pclose(list);
  });
  const File file = File::of_bytes(image, "foreign.h5");
  EXPECT_TRUE(file.groups().empty());  // no link out of the file is followed
  EXPECT_FALSE(file.has_group("outside") || file.has_dataset("dangling"));
  EXPECT_EQ(file.read<float>("big_endian"), std::vector<float>{0.5F});
  expect_part(message_of<DataError>([&] { file.read<double>("huge"); }),
              "foreign.h5: /huge: claims 8796093022208 bytes: damaged");
  expect_part(message_of<DataError>([&] { file.read_strings("variable"); }),
              "expected strings of fixed length");
  expect_part(message_of<DataError>([&] { file.string_attribute("variable"); }),
              "'variable' is not a string of fixed length");
}

}  // namespace
}  // namespace forecost::h5
