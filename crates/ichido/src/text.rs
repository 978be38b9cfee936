//! Errors as text.

/// An error and its causes, in one line. Some errors repeat their cause in their own text.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !text.contains(&because) {
            text.push_str(": ");
            text.push_str(&because);
        }
        cause = error.source();
    }
    text
}
