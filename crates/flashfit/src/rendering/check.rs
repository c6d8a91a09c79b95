//! Findings of a check as text.
