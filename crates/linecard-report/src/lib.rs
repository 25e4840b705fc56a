//! Reports as one self-contained HTML file: it opens offline, and has every figure as JSON in it.
