#include "engine/waiting_queue.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/limits.h"

namespace di {

namespace {

bool came_before(const Sequence& left, const Sequence& right) {
    return left.arrival_index != right.arrival_index ? left.arrival_index < right.arrival_index
                                                     : left.sample_index < right.sample_index;
}

}  // namespace

bool WaitingQueue::ByArrival::operator()(const Sequence* left, const Sequence* right) const {
    return came_before(*left, *right);
}

bool WaitingQueue::Entry::operator<(const Entry& other) const {
    return rank != other.rank ? rank < other.rank : came_before(*sequence, *other.sequence);
}

int64_t WaitingQueue::rank_of(const Sequence& sequence) const {
    switch (policy_) {
        case SchedulingPolicy::kFirstCome:
        case SchedulingPolicy::kFairShare: return 0;
        case SchedulingPolicy::kPriority: return -int64_t{sequence.priority};
        case SchedulingPolicy::kShortestPrefill: return sequence.rows_wanted();
    }
    return 0;
}

void WaitingQueue::push(Sequence& sequence) {
    DI_CHECK(by_arrival_.insert(&sequence).second, "a sequence waits twice");
    const Entry entry{rank_of(sequence), &sequence};
    entries_.emplace(&sequence, entry);
    by_rank_.insert(entry);
    rows_wanted_ += sequence.rows_wanted();
    if (policy_ == SchedulingPolicy::kFairShare) {
        const int64_t least = least_served();
        User& user = users_[sequence.user];
        // Who was away does not come back with a claim on what the others were given meanwhile.
        if (user.waiting.empty()) {
            user.served_rows = std::max(user.served_rows, least);
        }
        user.waiting.insert(&sequence);
    }
}

int64_t WaitingQueue::least_served() const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [name, user] : users_) {
        if (!user.waiting.empty()) {
            least = std::min(least, user.served_rows);
        }
    }
    return least == std::numeric_limits<int64_t>::max() ? 0 : least;
}

void WaitingQueue::remove(Sequence& sequence) {
    const auto found = entries_.find(&sequence);
    DI_CHECK(found != entries_.end(), "a sequence that does not wait was taken out");
    by_rank_.erase(found->second);
    entries_.erase(found);
    by_arrival_.erase(&sequence);
    rows_wanted_ -= sequence.rows_wanted();
    if (policy_ == SchedulingPolicy::kFairShare) {
        users_[sequence.user].waiting.erase(&sequence);
    }
}

void WaitingQueue::admit(Sequence& sequence) {
    remove(sequence);
    for (Sequence* other : by_arrival_) {
        if (!came_before(*other, sequence)) {
            break;
        }
        ++other->passed;
    }
    sequence.passed = 0;
}

void WaitingQueue::charge(const std::string& user, int64_t rows) {
    if (policy_ != SchedulingPolicy::kFairShare) {
        return;
    }
    users_[user].served_rows += rows;
    if (users_.size() <= static_cast<size_t>(kFairShareUsersMax)) {
        return;
    }
    // Users that are not here are forgotten; who returns starts level with the others.
    std::erase_if(users_, [](const auto& entry) { return entry.second.waiting.empty(); });
}

void WaitingQueue::fair_candidates(size_t count, std::vector<Sequence*>& into) const {
    std::vector<std::pair<int64_t, Sequence*>> heads;
    for (const auto& [name, user] : users_) {
        if (!user.waiting.empty()) {
            heads.emplace_back(user.served_rows, *user.waiting.begin());
        }
    }
    std::sort(heads.begin(), heads.end(), [](const auto& left, const auto& right) {
        return left.first != right.first ? left.first < right.first : came_before(*left.second, *right.second);
    });
    for (size_t i = 0; i < std::min(count, heads.size()); ++i) {
        into.push_back(heads[i].second);
    }
}

void WaitingQueue::candidates(size_t count, std::vector<Sequence*>& into) const {
    into.clear();
    // Who came first has been passed most often.
    if (!by_arrival_.empty() && (*by_arrival_.begin())->passed >= passed_max_) {
        into.push_back(*by_arrival_.begin());
        return;
    }
    if (policy_ == SchedulingPolicy::kFairShare) {
        fair_candidates(count, into);
        return;
    }
    for (const Entry& entry : by_rank_) {
        if (into.size() == count) {
            return;
        }
        into.push_back(entry.sequence);
    }
}

}  // namespace di
