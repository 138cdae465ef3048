// How products are cut, and that NVRTC compiles the kernels of every cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "backend/common/gemm_samples.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

using kernel::Dialect;
using kernel::GemmTile;
using plan::MatmulStep;

TEST(ChooseGemm, TilesShrinkUntilThereAreEnoughOfThem) {
  EXPECT_EQ(choose_gemm(product(4096, 4096, 4096)), (GemmCut{kLarge, 1}));
  EXPECT_EQ(choose_gemm(product(2048, 2048, 100)), (GemmCut{kLarge, 1}));
  EXPECT_EQ(choose_gemm(product(1024, 1024, 1024)), (GemmCut{with_slices(kMiddle, 4), 1}));
  EXPECT_EQ(choose_gemm(product(784, 1024, 128)), (GemmCut{with_slices(kMiddle, 2), 1}));
  EXPECT_EQ(choose_gemm(product(128, 1024, 784)), (GemmCut{with_slices(kSmall, 4), 1}));
  EXPECT_EQ(choose_gemm(product(128, 128, 64, false, false, 64)),
            (GemmCut{with_slices(kMiddle, 1), 1}));
}

TEST(ChooseGemm, LongSumsForFewResultsAreChunks) {
  EXPECT_EQ(choose_gemm(product(256, 256, 65536)), (GemmCut{with_slices(kMiddle, 4), 7}));
  EXPECT_EQ(choose_gemm(product(64, 64, 8192)), (GemmCut{with_slices(kSmall, 4), 8}));
  EXPECT_EQ(choose_gemm(product(64, 64, 1500)), (GemmCut{with_slices(kSmall, 4), 1}));
  EXPECT_EQ(choose_gemm(product(1 << 20, 10, 1024)), (GemmCut{with_slices(kTall, 4), 1}));
}

TEST(ChooseGemm, ThinResultsHaveThinTiles) {
  EXPECT_EQ(choose_gemm(product(4096, 10, 1024)), (GemmCut{with_slices(kTall, 4), 2}));
  EXPECT_EQ(choose_gemm(product(10, 4096, 1024)), (GemmCut{with_slices(kFlat, 4), 2}));
  EXPECT_EQ(choose_gemm(product(1024, 16, 100)), (GemmCut{kTall, 1}));
}

TEST(ChooseGemm, DoublesHaveSmallerTiles) {
  const auto f64 = [](std::int64_t size) {
    return choose_gemm(product(size, size, size, false, false, 1, 0, DType::f64));
  };
  EXPECT_EQ(f64(4096), (GemmCut{{.rows = 64, .columns = 64, .depth = 8, .thread_tile = 4}, 1}));
  EXPECT_EQ(f64(300), (GemmCut{with_slices(with_depth(kSmall, 8), 2), 1}));
}

// Layout, offsets and transposes affect loads, never the order of additions.
TEST(ChooseGemm, LooksAtTheShapeAlone) {
  EXPECT_EQ(choose_gemm(product(300, 500, 4000)),
            choose_gemm(product(300, 500, 4000, true, true, 1, 7)));
}

// The cuts that the tuner tries: other tiles, slices and chunks, the default cut first, each with
// its name.
TEST(ChooseGemm, CutsToTryBeginWithTheUsualOne) {
  for (const MatmulStep& s :
       {product(4096, 4096, 4096), product(1024, 1024, 1024), product(64, 64, 8192),
        product(4096, 10, 1024), product(300, 300, 300, false, false, 1, 0, DType::f64)}) {
    const std::vector<GemmCut> cuts = gemm_cuts(s);
    EXPECT_EQ(cuts.front(), choose_gemm(s));
    EXPECT_GE(cuts.size(), 2u);
    std::set<std::string> names;
    for (const GemmCut& cut : cuts) {
      EXPECT_LE(cut.tile.threads(), 1024) << name_of(cut);
      EXPECT_TRUE(names.insert(name_of(cut)).second) << name_of(cut);
      MatmulStep named = s;
      named.cut = name_of(cut);
      EXPECT_EQ(gemm_cut(named), cut);
    }
    EXPECT_EQ(gemm_cut(s), choose_gemm(s));
    MatmulStep unknown = s;
    unknown.cut = "of another version";
    EXPECT_EQ(gemm_cut(unknown), choose_gemm(s));
  }
}

TEST(GemmLaunches, ChunksCoverKExactly) {
  for (const std::int64_t k : {1, 15, 16, 17, 1000, 4097}) {
    for (const std::int64_t chunks : {1, 3, 8}) {
      const GemmLaunches all =
          gemm_launches(product(40, 50, k), {with_slices(kSmall, 2), chunks}, Dialect::OpenCL);
      std::array<std::int64_t, kernel::kGemmIntegers> ints{};
      ASSERT_EQ(all.launches[0].ints.size(), ints.size());
      std::ranges::copy(all.launches[0].ints, ints.begin());
      const auto n = std::bit_cast<kernel::GemmIntegers>(ints);
      EXPECT_EQ(n.slice % 16, 0);
      EXPECT_GE(n.chunks * n.slice * 2, k);
      EXPECT_LT((n.chunks - 1) * n.slice * 2, k);
      EXPECT_EQ(all.launches.size(), n.chunks == 1 ? 1u : 2u);
      EXPECT_EQ(all.partial_bytes, n.chunks == 1 ? 0u : 4u * 40 * 50 * n.chunks);
    }
  }
  EXPECT_TRUE(gemm_launches(product(0, 5, 5), {kSmall, 1}, Dialect::OpenCL).launches.empty());
}

TEST(GemmLaunches, WideIndicesOnlyWhereAMatrixNeedsThem) {
  const auto wide = [](const MatmulStep& s) {
    return gemm_launches(s, {kSmall, 1}, Dialect::Cuda)
               .launches[0]
               .source.text.find("typedef i64 index_t") != std::string::npos;
  };
  EXPECT_FALSE(wide(product(1 << 15, 1 << 15, 64, false, false, 8)));  // each matrix is small
  EXPECT_TRUE(wide(product(1 << 16, 1 << 15, 64)));
}

TEST(GemmNvrtc, EveryCutCompiles) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  const auto compile = [&](const MatmulStep& s, const GemmCut& cut) {
    for (const GemmLaunch& launch : gemm_launches(s, cut, Dialect::Cuda).launches)
      EXPECT_NO_THROW(EXPECT_FALSE(nvrtc.compile(launch.source.text, "sm_90").empty()));
  };
  for (const bool t : {false, true}) {
    compile(product(1024, 1024, 1024, t, !t), {kLarge, 1});
    compile(product(1024, 1024, 1024, t, t), {with_slices(kMiddle, 4), 2});
    compile(product(1021, 1023, 1025, t, t), {with_slices(kMiddle, 2), 1});
    compile(product(1021, 1023, 1025, t, !t), {with_slices(kSmall, 4), 1});
  }
  compile(product(1 << 16, 1 << 15, 64), {kLarge, 1});  // wide indices
  compile(product(1024, 10, 1024), {with_slices(kTall, 2), 4});
  compile(product(10, 1024, 1024), {with_slices(kFlat, 4), 1});
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    const MatmulStep s = product(512, 512, 4096, false, true, 1, 0, dtype);
    compile(s, choose_gemm(s));
  }
  compile(product(512, 512, 512, false, false, 1, 0, DType::bf16), {kLarge, 1});
}

// The properties that make large tiles fast: results in registers, few enough of them for two
// blocks per multiprocessor, vectors, fused multiply-adds.
TEST(GemmNvrtc, LargeTilesStayInRegisters) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  for (const GemmTile& tile : {kLarge, with_slices(kMiddle, 4)}) {
    for (const bool turned : {false, true}) {
      const std::string source =
          gemm_launches(product(4096, 4096, 4096, turned, !turned), {tile, 1}, Dialect::Cuda)
              .launches[0]
              .source.text;
      const std::string ptx = nvrtc.ptx(source, "compute_90");
      for (const char* wanted :
           {"fma.rn.f32", "ld.shared.v4.f32", "ld.global.nc.v4", "st.global.v4.f32"})
        EXPECT_NE(ptx.find(wanted), std::string::npos) << wanted;
      const std::string resources = nvrtc.resources(source, "sm_90");
      EXPECT_NE(resources.find(" 0 bytes spill stores"), std::string::npos) << resources;
      const std::size_t used = resources.find("Used ");
      ASSERT_NE(used, std::string::npos) << resources;
      EXPECT_LE(std::stoi(resources.substr(used + 5)), 128);
    }
  }
}

}  // namespace
}  // namespace volta::testing
