#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace di {

// Sequences that wait for room, in the order of a policy. A sequence that does not fit may be passed by later arrivals, but by at
// most `passed_max` of them: then it goes before all others, so that nobody starves under any policy. Owns nothing.
class WaitingQueue {
  public:
    WaitingQueue(SchedulingPolicy policy, int32_t passed_max) : policy_(policy), passed_max_(passed_max) {}

    void push(Sequence& sequence);
    // Takes it out without running it (abort, deadline).
    void remove(Sequence& sequence);
    // Takes it out because it runs now: those that came before it have been passed once more.
    void admit(Sequence& sequence);

    [[nodiscard]] bool empty() const { return by_arrival_.empty(); }
    [[nodiscard]] int64_t size() const { return static_cast<int64_t>(by_arrival_.size()); }
    // The next sequences to try, best first, at most `count`. When one has been passed too often, it alone.
    void candidates(size_t count, std::vector<Sequence*>& into) const;
    // Rows that a user's sequences were given, for fair share.
    void charge(const std::string& user, int64_t rows);
    // Rows that all who wait still want.
    [[nodiscard]] int64_t rows_wanted() const { return rows_wanted_; }
    // In order of arrival.
    [[nodiscard]] const auto& all() const { return by_arrival_; }

  private:
    struct ByArrival {
        bool operator()(const Sequence* left, const Sequence* right) const;
    };
    // Policy's number first (smaller goes first), then arrival. The number is kept, since a sequence's own may change.
    struct Entry {
        int64_t rank = 0;
        Sequence* sequence = nullptr;
        bool operator<(const Entry& other) const;
    };
    struct User {
        int64_t served_rows = 0;
        std::set<Sequence*, ByArrival> waiting;
    };

    [[nodiscard]] int64_t rank_of(const Sequence& sequence) const;
    [[nodiscard]] int64_t least_served() const;
    void fair_candidates(size_t count, std::vector<Sequence*>& into) const;

    SchedulingPolicy policy_;
    int32_t passed_max_;
    std::set<Sequence*, ByArrival> by_arrival_;
    std::map<const Sequence*, Entry> entries_;  // looked up, never iterated
    std::set<Entry> by_rank_;
    std::map<std::string, User> users_;  // fair share only; by name
    int64_t rows_wanted_ = 0;
};

}  // namespace di
