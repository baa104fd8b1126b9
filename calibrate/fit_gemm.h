#pragma once

#include <string>
#include <vector>

#include "calibrate/table.h"
#include "sim/cost/profile.h"

namespace aurum {

// Shapes that training steps use: m ≥ 1024, 1024 ≤ n, k ≤ 16384. Their error is stored apart.
bool IsTrainingSize(const GemmRow& row);
// Shapes that the models are fitted on: m, n, k ≥ 256. Smaller ones are decode GEMMs, other
// kernels.
bool IsFitSize(const GemmRow& row);

// Fits one form ("roofline", "k_saturation", "p_norm", "tile", "split_k"; without settling) to rows by
// relative error. E0825 under 10 rows.
GemmModel FitGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& form);

// Fits every form, p_norm and split_k with several norms and with and without settling too, five times,
// each time without one fifth of the shapes (by hash of the shape, so the split is the same everywhere
// and equal shapes fall together), keeps the candidate with the least error on the shapes left out,
// over training sizes if there are any, and fits it on all rows. Coefficients are rounded to five
// digits. quality.holdout_mape is over all fit sizes, quality.training_size_mape over the training
// ones; being the least of ten, they are optimistic by a little. The ranges are those of the rows
// fitted.
GemmModel ChooseGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& source);

}  // namespace aurum
