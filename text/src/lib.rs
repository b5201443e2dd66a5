//! Text front end: normalisation of numbers, dates and symbols into words, and segmentation. Pure.
