// Ranks as text for messages: "rank 3", "ranks 0-2, 5".

#ifndef LOCKSTEP_BASE_TEXT_RANK_LIST_H_
#define LOCKSTEP_BASE_TEXT_RANK_LIST_H_

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// `ranks`: in any order, without duplicates. "no rank" if empty. After 64
// ranges the rest is a number: "ranks 0, 2, ..., 126 and 936 more".
std::string RankList(std::vector<int> ranks);

// The text of each rank, with ranks of equal texts grouped, in the order of
// their lowest rank: "ranks 0-2: [128,64] f32 mean; rank 3: missing". After 64
// different texts, the rest is a number of ranks.
std::string WhoSaidWhat(
    const std::vector<std::pair<int, std::string>>& said_by_rank);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_RANK_LIST_H_
