#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace di {

// A schema that speaks of one kind of value only through its own keywords: no $ref, allOf, anyOf, oneOf beside others.
struct FlatSchema {
    JsonValue schema;  // an object
    std::string path;  // of the place that it came from, for messages
};

// Takes schemas apart into alternatives, of which a value must fit one.
class SchemaUnfolder {
  public:
    // `root` is what references point into; it has passed check_schema() and outlives this.
    explicit SchemaUnfolder(const JsonValue& root) : root_(root) {}

    // The alternatives of a schema object or boolean; none: nothing fits. References are followed and merged. Errors:
    // keywords that cannot be enforced, with their path; combinations that cannot be merged; alternatives of oneOf that
    // do not exclude each other; limits.
    [[nodiscard]] Result<std::vector<FlatSchema>> alternatives(const JsonValue& schema, const std::string& path);

    // An error where alternatives of the oneOf of this schema might both fit a value.
    [[nodiscard]] Status check_exclusive(const JsonValue& schema, const std::string& path);

    // An error for a keyword of this object that would be an assertion which nothing here enforces.
    [[nodiscard]] Status check_keywords(const JsonValue& schema, const std::string& path) const;

  private:
    Result<std::vector<FlatSchema>> unfold(const JsonValue& schema, const std::string& path, int depth);
    Result<std::vector<FlatSchema>> either(const JsonValue& schema, std::string_view keyword, const std::string& path,
                                           int depth);
    Result<std::vector<FlatSchema>> product(const std::vector<FlatSchema>& left, const std::vector<FlatSchema>& right);
    // Whether no value fits both.
    bool exclude_each_other(const JsonValue& left, const JsonValue& right, int depth);
    bool exclude_by_property(const JsonValue& left, const JsonValue& right, int depth);

    const JsonValue& root_;
    int64_t node_count_ = 0;
};

// Keywords of a schema object that restrict values; the others only describe.
[[nodiscard]] bool is_assertion(std::string_view keyword);

}  // namespace di
