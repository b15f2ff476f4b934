#pragma once

// Reads a small .safetensors file of tests/data into memory. Independent of src/weights on purpose: a test must not
// believe the reader that it tests. A broken file throws, which GoogleTest reports as a failure of the test.
//
//     const SafetensorsFixture file(DI_TEST_DATA "/units/rope.safetensors");
//     const FixtureTensor& tensor = file.at("yarn.inv_freq");
//     const std::vector<float> values = tensor.floats();

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace di {

// The whole file as bytes; throws when it cannot be read.
inline std::string read_fixture(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) {
        throw std::runtime_error("cannot open fixture " + path);
    }
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

struct FixtureTensor {
    std::string dtype;  // as in the file: "F32", "BF16", "F16", "I8", "U8", "I16", "I32", "I64", ...
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;

    [[nodiscard]] int64_t count() const {
        int64_t product = 1;
        for (const int64_t dimension : shape) {
            product *= dimension;
        }
        return product;
    }

    // The elements as they lie in the file; `T` must have the element's size.
    template <typename T>
    [[nodiscard]] std::vector<T> as() const {
        if (bytes.size() != sizeof(T) * static_cast<size_t>(count())) {
            throw std::runtime_error("fixture tensor of " + dtype + " read with another element size");
        }
        std::vector<T> values(static_cast<size_t>(count()));
        if (!values.empty()) {
            std::memcpy(values.data(), bytes.data(), bytes.size());
        }
        return values;
    }

    // Every element as float, whatever the type (F32, F64, BF16, I8, U8, BOOL, I16, I32, I64).
    [[nodiscard]] std::vector<float> floats() const { return convert<float>(); }
    // Every element as int64_t (integer types only make sense here).
    [[nodiscard]] std::vector<int64_t> integers() const { return convert<int64_t>(); }

  private:
    template <typename Target, typename Stored>
    [[nodiscard]] std::vector<Target> widen() const {
        std::vector<Target> values;
        for (const Stored element : as<Stored>()) {
            values.push_back(static_cast<Target>(element));
        }
        return values;
    }

    template <typename Target>
    [[nodiscard]] std::vector<Target> convert() const {
        if (dtype == "F32") {
            return widen<Target, float>();
        }
        if (dtype == "F64") {
            return widen<Target, double>();
        }
        if (dtype == "I8") {
            return widen<Target, int8_t>();
        }
        if (dtype == "U8" || dtype == "BOOL") {
            return widen<Target, uint8_t>();
        }
        if (dtype == "I16") {
            return widen<Target, int16_t>();
        }
        if (dtype == "I32") {
            return widen<Target, int32_t>();
        }
        if (dtype == "I64") {
            return widen<Target, int64_t>();
        }
        if (dtype == "BF16") {
            std::vector<Target> values;
            for (const uint16_t bits : as<uint16_t>()) {
                values.push_back(static_cast<Target>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)));
            }
            return values;
        }
        throw std::runtime_error("fixture tensor of type " + dtype + " cannot be converted");
    }
};

struct SafetensorsFixture {
    std::map<std::string, FixtureTensor> tensors;

    explicit SafetensorsFixture(const std::string& path) {
        const std::string file = read_fixture(path);
        uint64_t header_size = 0;
        if (file.size() < sizeof(header_size)) {
            throw std::runtime_error("fixture " + path + " is too short");
        }
        std::memcpy(&header_size, file.data(), sizeof(header_size));
        const std::string header_text = file.substr(sizeof(header_size), header_size);
        const std::string data = file.substr(sizeof(header_size) + header_size);
        const nlohmann::json header = nlohmann::json::parse(header_text);
        for (const auto& [name, entry] : header.items()) {
            if (name == "__metadata__") {
                continue;
            }
            const auto begin = entry.at("data_offsets").at(0).get<size_t>();
            const auto end = entry.at("data_offsets").at(1).get<size_t>();
            if (begin > end || end > data.size()) {
                throw std::runtime_error("fixture " + path + ": bad offsets of " + name);
            }
            FixtureTensor& tensor = tensors[name];
            tensor.dtype = entry.at("dtype").get<std::string>();
            tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
            tensor.bytes.assign(data.begin() + static_cast<std::ptrdiff_t>(begin),
                                data.begin() + static_cast<std::ptrdiff_t>(end));
        }
    }

    [[nodiscard]] bool has(const std::string& name) const { return tensors.contains(name); }

    [[nodiscard]] const FixtureTensor& at(const std::string& name) const {
        const auto found = tensors.find(name);
        if (found == tensors.end()) {
            throw std::runtime_error("fixture has no tensor " + name);
        }
        return found->second;
    }
};

}  // namespace di
