//! Errors of compiled programs show their source line.
