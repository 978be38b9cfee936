//! A notes API over TLS, for clients that insist on it: AWS Amplify turns every address into `https://` and `wss://`.
//!
//! It makes a certificate for `localhost`, writes it to the path in the first argument, prints the address, and serves until its
//! standard input ends. The API key is in `APPSYNC_API_KEY`.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use appsync::Api;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

type Error = Box<dyn std::error::Error + Send + Sync>;

const SDL: &str = "
type Query { note(id: ID!): Note }
type Mutation { addNote(room: ID!, text: String!): Note  fail: Note }
type Subscription { onNote(room: ID!): Note @aws_subscribe(mutations: [\"addNote\"]) }
type Note { id: ID!  room: ID!  text: String!  at: AWSDateTime! }";

const TEMPLATE: &str = r#"
Resources:
  Api: { Type: AWS::AppSync::GraphQLApi, Properties: { Name: notes, AuthenticationType: API_KEY } }
  None: { Type: AWS::AppSync::DataSource, Properties: { Name: none, Type: NONE } }
  Note:
    Type: AWS::AppSync::Resolver
    Properties:
      TypeName: Query
      FieldName: note
      DataSourceName: none
      Code: |
        import { util } from '@aws-appsync/utils'
        export function request(ctx) { return { payload: { id: ctx.args.id, room: 'r', text: 'kept', at: util.time.nowISO8601() } } }
        export function response(ctx) { return ctx.result }
  AddNote:
    Type: AWS::AppSync::Resolver
    Properties:
      TypeName: Mutation
      FieldName: addNote
      DataSourceName: none
      Code: |
        import { util } from '@aws-appsync/utils'
        export function request(ctx) { return { payload: { ...ctx.args, id: util.autoId(), at: util.time.nowISO8601() } } }
        export function response(ctx) { return ctx.result }
  Fail:
    Type: AWS::AppSync::Resolver
    Properties:
      TypeName: Mutation
      FieldName: fail
      DataSourceName: none
      Code: |
        import { util } from '@aws-appsync/utils'
        export function request(ctx) { util.error('no room', 'RoomNotFound', null, { retry: false }) }
        export function response(ctx) { return ctx.result }
"#;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).ok_or("usage: tls CERTIFICATE-FILE")?;
    let key = std::env::var("APPSYNC_API_KEY").map_err(|_| "APPSYNC_API_KEY is not set")?;
    let api = Api::builder().schema(SDL).template(TEMPLATE, &[]).api_keys([key]).build()?;

    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(path, certificate.cert.pem())?;
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], secret)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "https://localhost:{}/graphql", listener.local_addr()?.port())?;
    let input_ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        _ = input_ended => Ok(()),
        served = serve(listener, acceptor, &api) => served,
    }
}

async fn serve(listener: tokio::net::TcpListener, acceptor: TlsAcceptor, api: &Api) -> Result<(), Error> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(api.router()));
        tokio::spawn(async move {
            // A client that disconnects is not an error of this server.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection_with_upgrades(TokioIo::new(stream), service)
                    .await;
            }
        });
    }
}
