package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
)

// Audience of the tokens that open a stream: a token for the API server, or
// for another service, does not.
const Audience = "oooi-hub"

var (
	errNoSuchChild    = errors.New("no such child")
	errTooManyStreams = errors.New("too many streams for this child")
)

// Tokens says whose a token is.
type Tokens interface {
	// User gives the user name of a token for our audience, or "" for a token
	// that is not valid.
	User(ctx context.Context, token string) (string, error)
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create

// Reviews asks the API server about tokens (TokenReview).
type Reviews struct{ Client client.Client }

// User implements Tokens.
func (r Reviews) User(ctx context.Context, token string) (string, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	if err := r.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return "", nil
	}
	// An API server that does not know about audiences says so by leaving them out.
	if slices.Contains(review.Status.Audiences, Audience) {
		return review.Status.User.Username, nil
	}
	return "", nil
}

// Server is the gRPC server of the hub.
type Server struct {
	agentv1.UnimplementedAgentServiceServer

	hub            *Hub
	tokens         Tokens
	serviceAccount func(component, name string) string
	listener       net.Listener
	certificate    func() (*tls.Certificate, error)
	door           door
}

// NewServer makes a server on a listener. serviceAccount names the
// ServiceAccount of a child's pod.
func NewServer(hub *Hub, tokens Tokens, serviceAccount func(component, name string) string, listener net.Listener,
	certificate func() (*tls.Certificate, error),
) *Server {
	return &Server{hub: hub, tokens: tokens, serviceAccount: serviceAccount, listener: listener, certificate: certificate, door: door{now: time.Now}}
}

// NeedLeaderElection says that every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Limits of the server. A stream ends after some time, so that a token is
// looked at again; the agent dials anew and goes on with what it has.
const (
	maxConnectionAge      = time.Hour
	maxConnectionAgeGrace = time.Minute
	pingEvery             = 30 * time.Second
	pingTimeout           = 10 * time.Second
	reviewTimeout         = 10 * time.Second
	maxMessage            = 64 << 20
)

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate() },
	}
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: maxConnectionAgeGrace, Time: pingEvery, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxSendMsgSize(maxMessage), grpc.MaxRecvMsgSize(1<<16),
	)
	agentv1.RegisterAgentServiceServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(s.listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving the hub: %w", err)
	}
	return nil
}

// Watch implements the contract.
func (s *Server) Watch(req *agentv1.WatchRequest, stream grpc.ServerStreamingServer[agentv1.WatchResponse]) error {
	ctx := stream.Context()
	if req.GetContract() != Contract {
		return status.Errorf(codes.FailedPrecondition, "contract %q is not served here, %s is", req.GetContract(), Contract)
	}
	k := childKey{req.GetComponent(), types.NamespacedName{Namespace: req.GetNamespace(), Name: req.GetName()}}
	if childOf(k.component) == nil {
		return status.Errorf(codes.InvalidArgument, "unknown component %q", k.component)
	}
	if err := s.authorize(ctx, k); err != nil {
		return err
	}
	err := s.hub.watch(ctx, k, func(snapshot *agentv1.Snapshot) error {
		return stream.Send(&agentv1.WatchResponse{Snapshot: snapshot})
	})
	switch {
	case errors.Is(err, errNoSuchChild):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, errTooManyStreams):
		return status.Error(codes.ResourceExhausted, err.Error())
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

// authorize opens a child's stream to that child's ServiceAccount alone. What says
// itself that it is not that ServiceAccount's costs no review.
func (s *Server) authorize(ctx context.Context, k childKey) error {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) != 1 {
		return status.Error(codes.Unauthenticated, "no token")
	}
	token, ok := strings.CutPrefix(values[0], "Bearer ")
	if !ok || token == "" {
		return status.Error(codes.Unauthenticated, "no bearer token")
	}
	want := "system:serviceaccount:" + k.name.Namespace + ":" + s.serviceAccount(k.component, k.name.Name)
	switch claimed(token) {
	case want:
	case "":
		return status.Error(codes.Unauthenticated, "the token is not a ServiceAccount's")
	default:
		return status.Error(codes.PermissionDenied, "the token is not this child's")
	}
	if !s.door.open(addressOf(ctx)) {
		return status.Error(codes.ResourceExhausted, "too many tokens from this address")
	}
	reviewCtx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	user, err := s.tokens.User(reviewCtx, token)
	switch {
	case err != nil:
		return status.Error(codes.Unavailable, "the token cannot be reviewed now")
	case user == "":
		return status.Error(codes.Unauthenticated, "the token is not valid for "+Audience)
	case user != want:
		return status.Error(codes.PermissionDenied, "the token is not this child's")
	}
	return nil
}
