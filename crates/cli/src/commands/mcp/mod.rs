//! `cutrace mcp`: reports and queries for assistants, by the Model Context Protocol over standard input and output.
//!
//! Nothing here writes but into a folder of the server's own, and no answer is longer than a bound.

mod tools;

use anyhow::{Context, Result};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use std::{process::ExitCode, sync::Arc};
use tools::Workspace;

/// No answer is longer, in bytes.
const LONGEST: usize = 48 << 10;

const INSTRUCTIONS: &str = "cutrace records what CUDA programs do: API calls, driver ioctls, GPU kernels. Start with list_traces, \
                            then report with section 'summary' or 'findings'. Use query for questions in SQL (DuckDB) over traces and \
                            lakes. Nothing is changed by any tool.";

pub fn run() -> Result<ExitCode> {
    let server = Server {
        workspace: Arc::new(Workspace::new()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .context("cannot start")?;
    runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await;
        // A client that leaves before it has said who it is has nothing to complain about.
        if let Ok(running) = running {
            running.waiting().await.context("the connection")?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    // Somebody may still hold standard input open, which a thread reads.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

struct Server {
    workspace: Arc<Workspace>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("cutrace", version::BUILD))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let workspace = Arc::clone(&self.workspace);
        let arguments = request.arguments.unwrap_or_default();
        let name = request.name;
        if !tools::is_known(&name) {
            let problem = format!("there is no tool '{name}'");
            return Err(ErrorData::invalid_params(problem, None));
        }
        let work = move || workspace.call(&name, arguments);
        let answer = tokio::task::spawn_blocking(work).await;
        let result = match answer {
            Ok(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(bounded(text))]),
            Ok(Err(why)) => {
                let why = bounded(format!("{why:#}"));
                CallToolResult::error(vec![ContentBlock::text(why)])
            }
            Err(why) => return Err(ErrorData::internal_error(why.to_string(), None)),
        };
        Ok(result.into())
    }
}

/// The beginning of a text, if it is too long, and a word about the rest.
fn bounded(mut text: String) -> String {
    if text.len() > LONGEST {
        let whole = text.len();
        let mut end = LONGEST;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(&format!(
            "\n[cut: {whole} bytes in all; ask for less: another section, fewer rows]"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_cut_between_characters() {
        let text = bounded("µ".repeat(LONGEST));
        assert!(text.len() < LONGEST + 100, "{}", text.len());
        assert!(text.contains("[cut: "));
        assert_eq!(bounded("short".into()), "short");
    }
}
