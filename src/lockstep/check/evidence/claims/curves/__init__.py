"""Functions that figures of exercises draw from and that decide no claim: runs whose every point is shown, one each."""
