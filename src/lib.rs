//! whoseenv
