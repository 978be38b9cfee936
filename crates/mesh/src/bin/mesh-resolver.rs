//! The Lambda function `mesh-resolver`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(mesh::RESOLVER)
}
