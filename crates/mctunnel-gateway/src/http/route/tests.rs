//! Tables of targets.
