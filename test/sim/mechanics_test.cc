#include "sim/mechanics.h"

#include <gtest/gtest.h>

#include "sim/seek_curve.h"

namespace lazyfs::sim {
namespace {

// Two zones of 10 cylinders with 2 surfaces: tracks of 100 and of 50 sectors, 10 ms a revolution.
Geometry small_geometry() {
  return {2, {{0, 10, 100, 10, 20, 0}, {10, 10, 50, 5, 10, 0}}, 3000};
}

MechanicsParameters small_parameters() {
  MechanicsParameters parameters;
  parameters.revolution_ms = 10;
  parameters.head_switch_ms = 1;
  parameters.write_settle_ms = 0.5;
  parameters.seeks = SeekCurve({{1, 2.0}, {19, 20.0}});
  return parameters;
}

// ---- Seeks --------------------------------------------------------------------------------------

TEST(SeekCurveTest, HitsItsPointsAndInterpolatesBetweenThem) {
  const SeekCurve curve({{1, 1.0}, {11, 2.0}, {21, 6.0}});
  EXPECT_DOUBLE_EQ(curve.time_ms(0), 0);
  EXPECT_DOUBLE_EQ(curve.time_ms(1), 1.0);
  EXPECT_DOUBLE_EQ(curve.time_ms(6), 1.5);
  EXPECT_DOUBLE_EQ(curve.time_ms(16), 4.0);
  EXPECT_DOUBLE_EQ(curve.time_ms(100), 6.0);
}

TEST(SeekCurveTest, PassesThroughThreeFiguresOfADataSheet) {
  const SeekCurve curve = SeekCurve::from_figures(90'000, 1, 12, 22);
  EXPECT_DOUBLE_EQ(curve.time_ms(1), 1);
  EXPECT_NEAR(curve.time_ms(30'000), 12, 1e-9);
  EXPECT_DOUBLE_EQ(curve.time_ms(90'000), 22);
  EXPECT_NEAR(curve.mean_ms(90'000), 12, 0.8);  // the mean distance is a third of the stroke
}

// ---- Geometry -----------------------------------------------------------------------------------

TEST(GeometryTest, PlacesSectorsByTrackSurfaceAndZone) {
  const Geometry geometry = small_geometry();
  EXPECT_EQ(geometry.cylinders(), 20u);
  EXPECT_EQ(geometry.place(0).cylinder, 0u);
  EXPECT_EQ(geometry.place(99).surface, 0u);
  EXPECT_EQ(geometry.place(100).surface, 1u);
  EXPECT_EQ(geometry.place(200).cylinder, 1u);
  EXPECT_EQ(geometry.place(1999).cylinder, 9u);
  EXPECT_EQ(geometry.place(2000).cylinder, 10u);
  EXPECT_EQ(geometry.place(2000).track_sectors, 50u);
  EXPECT_EQ(geometry.place(2999).cylinder, 19u);
}

TEST(GeometryTest, SkewsEachTrackAndEachCylinder) {
  const Geometry geometry = small_geometry();
  EXPECT_DOUBLE_EQ(geometry.place(0).angle, 0);
  EXPECT_DOUBLE_EQ(geometry.place(100).angle, 0.10);  // the next track
  EXPECT_DOUBLE_EQ(geometry.place(200).angle, 0.30);  // and the next cylinder
  EXPECT_DOUBLE_EQ(geometry.place(150).angle, 0.60);
}

TEST(GeometryTest, CountsTheRevolutionsOfATransferWithItsChangesOfTracks) {
  const Geometry geometry = small_geometry();
  EXPECT_DOUBLE_EQ(geometry.revolutions(0, 100), 1);
  EXPECT_DOUBLE_EQ(geometry.revolutions(50, 100), 1.1);
  EXPECT_DOUBLE_EQ(geometry.revolutions(0, 400), 4 + 0.1 + 0.2 + 0.1);
  EXPECT_DOUBLE_EQ(geometry.revolutions(1950, 100), 1.5);  // into the next zone
}

TEST(GeometryTest, LeavesOutSparesEvenly) {
  const Geometry geometry(1, {{0, 10, 100, 0, 0, 500}}, 500);
  EXPECT_EQ(geometry.place(499).cylinder, 9u);
  EXPECT_EQ(geometry.place(250).cylinder, 5u);
}

// ---- Mechanics ----------------------------------------------------------------------------------

TEST(MechanicsTest, WaitsForTheSectorToComeRound) {
  const Geometry geometry = small_geometry();
  const MechanicsParameters parameters = small_parameters();
  Mechanics mechanics(geometry, parameters);
  EXPECT_DOUBLE_EQ(mechanics.position(0, 25, false), 2.5);
  EXPECT_DOUBLE_EQ(mechanics.position(3, 25, false), 12.5);  // it has just passed
}

TEST(MechanicsTest, AddsSeekHeadSwitchAndSettle) {
  const Geometry geometry = small_geometry();
  const MechanicsParameters parameters = small_parameters();
  Mechanics mechanics(geometry, parameters);
  // One cylinder: 2 ms, and the sector lies at 3 ms.
  EXPECT_DOUBLE_EQ(mechanics.position(0, 200, false), 3);
  // The other surface: 1 ms and settling 0.5 ms; the sector lies at 4 ms.
  EXPECT_DOUBLE_EQ(mechanics.position(2.5, 300, true), 4);
  EXPECT_EQ(mechanics.counters().seeks, 1u);
  EXPECT_EQ(mechanics.counters().cylinders, 1u);
}

TEST(MechanicsTest, TransfersAtTheRateOfTheZone) {
  const Geometry geometry = small_geometry();
  const MechanicsParameters parameters = small_parameters();
  Mechanics mechanics(geometry, parameters);
  EXPECT_DOUBLE_EQ(mechanics.transfer(5, 0, 50), 10);
  EXPECT_DOUBLE_EQ(mechanics.media_rate(0), 512 * 100 / 0.010);
  EXPECT_DOUBLE_EQ(mechanics.media_rate(2999), 512 * 50 / 0.010);
}

}  // namespace
}  // namespace lazyfs::sim
