//! What is sent is read from files, and what is received appears when it is whole.
