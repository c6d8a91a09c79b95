//! Tests of reading runs and documents.
