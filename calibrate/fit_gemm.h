#pragma once

#include <string>
#include <vector>

#include "calibrate/table.h"
#include "sim/cost/profile.h"

namespace aurum {

// What is fitted, and how. The defaults are those of the tables: bf16 products on a GPU.
struct GemmFitOptions {
  // Rows with a smaller m, n or k are left out: on a GPU they are decode GEMMs, other kernels.
  double least_size = 256;
  // What training uses, whose error is stored apart and decides: m ≥ training_low, n and k between
  // both.
  double training_low = 1024, training_high = 16384;
  double input_bytes = 2, output_bytes = 2;
  bool tiles = true;  // whether forms with tiles and waves, a GPU's, compete
  int rounds = 5;     // of the simplex search
};

// Shapes that training steps use. Their error is stored apart.
bool IsTrainingSize(const GemmRow& row, const GemmFitOptions& options = {});
// Shapes that the models are fitted on.
bool IsFitSize(const GemmRow& row, const GemmFitOptions& options = {});

// Fits one form ("roofline", "k_saturation", "p_norm", "tile", "split_k"; without settling) to rows by
// relative error. E0825 under 10 rows.
GemmModel FitGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& form,
                  const GemmFitOptions& options = {});

// Fits every form, p_norm and split_k with several norms and with and without settling too, five times,
// each time without one fifth of the shapes (by hash of the shape, so the split is the same everywhere
// and equal shapes fall together), keeps the candidate with the least error on the shapes left out,
// over training sizes if there are any, and fits it on all rows. Coefficients are rounded to five
// digits. quality.holdout_mape is over all fit sizes, quality.training_size_mape over the training
// ones; being the least of ten, they are optimistic by a little. The ranges are those of the rows
// fitted.
GemmModel ChooseGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& source,
                     const GemmFitOptions& options = {});

}  // namespace aurum
