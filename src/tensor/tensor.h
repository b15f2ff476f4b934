#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "tensor/dtype.h"

namespace di {

// A view: data somewhere, a type, up to four dimensions. Does not own. Rows (the first
// dimension) may be further apart than their size (row_stride); all else is dense.
struct Tensor {
    void* data = nullptr;
    DType dtype = DType::kF32;
    int rank = 0;
    std::array<int64_t, 4> shape{1, 1, 1, 1};
    int64_t row_stride = 0;  // in elements

    Tensor() = default;
    Tensor(void* memory, DType type, std::initializer_list<int64_t> dims) : data(memory), dtype(type) {
        DI_CHECK(dims.size() >= 1 && dims.size() <= 4, "a tensor has one to four dimensions");
        for (const int64_t dim : dims) {
            shape[static_cast<size_t>(rank++)] = dim;
        }
        row_stride = row_size();
    }

    [[nodiscard]] int64_t rows() const { return shape[0]; }
    // Elements of one row: the product of all dimensions but the first.
    [[nodiscard]] int64_t row_size() const {
        int64_t size = 1;
        for (int i = 1; i < rank; ++i) {
            size *= shape[static_cast<size_t>(i)];
        }
        return size;
    }
    [[nodiscard]] int64_t size() const { return rank == 0 ? 0 : rows() * row_size(); }
    [[nodiscard]] bool empty() const { return data == nullptr || size() == 0; }

    template <typename T>
    [[nodiscard]] T* ptr() const {
        return static_cast<T*>(data);
    }
    // Start of row `index`.
    template <typename T>
    [[nodiscard]] T* row(int64_t index) const {
        return static_cast<T*>(data) + index * row_stride;
    }

    // The first `count` rows.
    [[nodiscard]] Tensor head(int64_t count) const {
        Tensor view = *this;
        view.shape[0] = count;
        return view;
    }
    // `count` rows from row `first`.
    [[nodiscard]] Tensor slice(int64_t first, int64_t count) const {
        Tensor view = head(count);
        view.data = static_cast<char*>(data) + first * row_stride * dtype_bits(dtype) / 8;
        return view;
    }
    // Columns [first, first + count) of every row, as a rank-2 view.
    [[nodiscard]] Tensor columns(int64_t first, int64_t count) const {
        Tensor view = *this;
        view.rank = 2;
        view.shape = {rows(), count, 1, 1};
        view.data = static_cast<char*>(data) + first * dtype_bits(dtype) / 8;
        return view;
    }
    // A dense vector seen as rows of `columns` elements.
    [[nodiscard]] Tensor as_rows(int64_t columns) const {
        DI_CHECK(rank == 1 && columns > 0 && rows() % columns == 0, "a vector must divide into its rows");
        return {data, dtype, {rows() / columns, columns}};
    }
    // The same rows seen with other inner dimensions of equal product.
    [[nodiscard]] Tensor as(std::initializer_list<int64_t> dims) const {
        Tensor view(data, dtype, dims);
        DI_CHECK(view.rows() == rows() && view.row_size() == row_size(), "a view must keep rows and their size");
        view.row_stride = row_stride;
        return view;
    }
};

}  // namespace di
