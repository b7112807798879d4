//! Queue formats behind common verbs, and the shared vocabulary of the house.
