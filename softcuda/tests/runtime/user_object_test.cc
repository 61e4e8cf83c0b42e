// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <future>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

void Fulfil(void* data) { static_cast<std::promise<void>*>(data)->set_value(); }
void Nothing(void*) {}

class UserObjectTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    ASSERT_OK(cuUserObjectCreate(&object_, &destroyed_, Fulfil, 1,
                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  }

  std::promise<void> destroyed_;
  CUuserObject object_ = nullptr;
  CUgraph graph_ = nullptr;
};

TEST_F(UserObjectTest, LivesAsLongAsAnExecutableGraphHoldsIt) {
  AddHostNode(graph_, Nothing, nullptr);
  ASSERT_OK(
      cuGraphRetainUserObject(graph_, object_, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph_, 0));
  ASSERT_OK(cuGraphDestroy(graph_));
  std::future<void> done = destroyed_.get_future();
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuGraphExecDestroy(exec));
  done.wait();
}

TEST_F(UserObjectTest, LastReleaseDestroys) {
  ASSERT_OK(cuUserObjectRetain(object_, 2));
  ASSERT_OK(cuUserObjectRelease(object_, 2));
  std::future<void> done = destroyed_.get_future();
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  ASSERT_OK(cuUserObjectRelease(object_, 1));
  done.wait();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(object_, 1));
  EXPECT_NE(TakeReports().find("was destroyed"), std::string::npos);
  ASSERT_OK(cuGraphDestroy(graph_));
}

TEST_F(UserObjectTest, MoreThanIsHeldCannotBeReleased) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object_, 2));
  ASSERT_OK(cuGraphRetainUserObject(graph_, object_, 3, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphReleaseUserObject(graph_, object_, 4));
  EXPECT_OK(cuGraphReleaseUserObject(graph_, object_, 3));
  ASSERT_OK(cuUserObjectRelease(object_, 1));
  destroyed_.get_future().wait();
  ASSERT_OK(cuGraphDestroy(graph_));
}

}  // namespace
}  // namespace softcuda
