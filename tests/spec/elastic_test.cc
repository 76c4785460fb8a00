#include "spec/elastic.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::spec {
namespace {

JobSpec Elastic(const std::string& mesh, const std::string& axis) {
  return {
      .name = "digits", .mesh = *ParseMesh(mesh), .elastic = {.axis = axis}};
}

std::string MeshText(const JobSpec& spec, int world) {
  const std::optional<Mesh> mesh = MeshOfWorld(spec, world);
  return mesh ? ToString(*mesh) : "none";
}

TEST(ElasticTest, TheElasticAxisFitsTheWorld) {
  const JobSpec spec = Elastic("pipe=2,data=3,model=2", "data");
  EXPECT_EQ(WorkersPerReplica(spec), 4);
  EXPECT_EQ(ReplicasMax(spec), 3);
  EXPECT_EQ(MeshText(spec, 12), "pipe=2,data=3,model=2");
  EXPECT_EQ(MeshText(spec, 8), "pipe=2,data=2,model=2");
  EXPECT_EQ(MeshText(spec, 4), "pipe=2,data=1,model=2");
  for (const int none : {-4, 0, 1, 5, 11, 13, 16}) {
    EXPECT_EQ(MeshText(spec, none), "none") << none;
  }
}

TEST(ElasticTest, AFixedMeshHasOneSize) {
  const JobSpec spec = Elastic("data=3", "");
  EXPECT_EQ(MeshText(spec, 3), "data=3");
  for (const int none : {0, 1, 2, 6}) EXPECT_EQ(MeshText(spec, none), "none");
  EXPECT_EQ(WorkersMin(spec), 3);
}

TEST(ElasticTest, AMeshWithoutAxesHasOneRank) {
  EXPECT_EQ(MeshText({.name = "one"}, 1), "");
  EXPECT_EQ(MeshText({.name = "one"}, 2), "none");
}

// Sums in a tree need a power of two.
TEST(ElasticTest, ReproducibleJobsHalveAndDouble) {
  JobSpec spec = Elastic("data=8", "data");
  spec.reproducible.leaves = 8;
  std::vector<int> sizes;
  for (int world = 0; world <= 16; ++world) {
    if (MeshOfWorld(spec, world)) sizes.push_back(world);
  }
  EXPECT_EQ(sizes, (std::vector<int>{1, 2, 4, 8}));
}

TEST(ElasticTest, TheLeastAndTheMostWorkers) {
  JobSpec spec = Elastic("data=4,pipe=2", "data");
  EXPECT_EQ(WorkersMin(spec), 2);
  spec.elastic.min_workers = 1;
  EXPECT_EQ(WorkersMin(spec), 2);
  spec.elastic.min_workers = 5;
  EXPECT_EQ(WorkersMin(spec), 5);
  EXPECT_EQ(WorkersMax(spec), 8);
  spec.limits.spares = 2;
  EXPECT_EQ(WorkersMax(spec), 10);
}

}  // namespace
}  // namespace lockstep::spec
