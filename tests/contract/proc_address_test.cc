// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Entry points by name and version: assertions 154 to 157.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

struct Answer {
  CUresult result = CUDA_ERROR_UNKNOWN;
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Answer Ask(const char* name, int version) {
  Answer answer;
  answer.result =
      Driver().GetProcAddress(name, &answer.function, version,
                              CU_GET_PROC_ADDRESS_DEFAULT, &answer.status);
  return answer;
}

TEST(ProcAddressContract, A154_VersionsAreDifferentFunctions) {
  const Answer newer = Ask("cuStreamGetCaptureInfo", 12030);
  const Answer older = Ask("cuStreamGetCaptureInfo", 11030);
  EXPECT_CU_OK(newer.result);
  EXPECT_CU_OK(older.result);
  EXPECT_NE(newer.function, nullptr);
  EXPECT_NE(older.function, nullptr);
  EXPECT_NE(newer.function, older.function);
}

TEST(ProcAddressContract, A155_UnknownNames) {
  const Answer answer = Ask("noSuchCall", 12000);
  EXPECT_CU_OK(answer.result);
  EXPECT_EQ(answer.function, nullptr);
  EXPECT_EQ(answer.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(ProcAddressContract, A156_VersionsBeforeTheCallExisted) {
  const Answer answer = Ask("cuGraphConditionalHandleCreate", 11000);
  EXPECT_EQ(answer.function, nullptr);
  EXPECT_EQ(answer.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(ProcAddressContract, A157_VersionsPastTheDrivers) {
  int version = 0;
  ASSERT_CU_OK(Driver().DriverGetVersion(&version));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Ask("cuInit", version + 10).result);
}

}  // namespace
}  // namespace permafrost::contract
