//! Configurations from random bytes: most of them have the right form.
