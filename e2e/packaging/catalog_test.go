package packaging_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/densityops/oooi/e2e/packaging"
)

// copyTree copies the catalog, so that what is released in it stays in it.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// TestTheCatalogIsCurrent: hazard 230.
func TestTheCatalogIsCurrent(t *testing.T) {
	catalog := copyTree(t, filepath.Join(root, "catalog"))
	require.NoError(t, packaging.WriteCatalog(t.Context(), tool(t, "opm"), root, filepath.Join(root, "bundle"), catalog, table(t)))
	same(t, filepath.Join(root, "catalog"), catalog)
	// OpenShift since 4.17 wants the CSV's metadata instead of whole objects.
	rendered, err := os.ReadFile(filepath.Join(catalog, "oooi", packaging.CSVName(table(t).Version)+".yaml"))
	require.NoError(t, err)
	require.Contains(t, string(rendered), "type: olm.csv.metadata")
	require.NotContains(t, string(rendered), "olm.bundle.object")
}

func same(t *testing.T, want, is string) {
	t.Helper()
	read := func(dir string) map[string]string {
		files := map[string]string{}
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := os.ReadFile(filepath.Join(dir, path))
			files[path] = string(raw)
			return err
		}))
		return files
	}
	require.Equal(t, read(want), read(is))
}

// TestANewVersionJoinsTheCatalog: hazard 230. What is released is not made
// anew; the new version replaces it.
func TestANewVersionJoinsTheCatalog(t *testing.T) {
	catalog := copyTree(t, filepath.Join(root, "catalog"))
	before, err := os.ReadFile(filepath.Join(catalog, "oooi/oooi.v0.1.0.yaml"))
	require.NoError(t, err)
	next := table(t).At("0.2.0")
	require.NoError(t, next.Validate())
	bundle := t.TempDir()
	require.NoError(t, packaging.WriteBundle(root, bundle, next))
	require.NoError(t, packaging.WriteCatalog(t.Context(), tool(t, "opm"), root, bundle, catalog, next))
	after, err := os.ReadFile(filepath.Join(catalog, "oooi/oooi.v0.1.0.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	channel, err := packaging.ReadChannel(filepath.Join(catalog, "oooi/channel-alpha.yaml"))
	require.NoError(t, err)
	require.Empty(t, channel.Problems())
	require.Equal(t, []string{"oooi.v0.2.0"}, channel.Heads())
	require.Equal(t, "oooi.v0.1.0", channel.Entries[1].Replaces)
}

// serve starts opm as the catalog's pod does and returns a connection.
func serve(t *testing.T, catalog string) *grpc.ClientConn {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	t.Cleanup(c.stop)
	port := freePort(t)
	path, err := filepath.Abs(catalog)
	require.NoError(t, err)
	c.daemon(t, tool(t, "opm"), "serve", path, "--cache-dir="+filepath.Join(c.dir, "cache"), "--cache-enforce-integrity=false",
		"--pprof-addr=", "--port="+port, "--termination-log="+filepath.Join(c.dir, "termination"))
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	eventually(t, time.Minute, "the catalog is served", func(ctx context.Context) error {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "Registry"})
		if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			return errors.New(answer.GetStatus().String())
		}
		return err
	})
	return conn
}

// message is a protobuf message of string fields, by number; opm's own types
// would bring its whole module along.
func message(fields ...string) *emptypb.Empty {
	var raw []byte
	for i, field := range fields {
		raw = protowire.AppendTag(raw, protowire.Number(i+1), protowire.BytesType)
		raw = protowire.AppendString(raw, field)
	}
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(raw)
	return m
}

func fieldsOf(t *testing.T, m *emptypb.Empty) map[int][]string {
	t.Helper()
	fields := map[int][]string{}
	for raw := []byte(m.ProtoReflect().GetUnknown()); len(raw) > 0; {
		number, kind, n := protowire.ConsumeTag(raw)
		require.Positive(t, n)
		raw = raw[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(raw)
			require.Positive(t, n)
			fields[int(number)] = append(fields[int(number)], string(value))
			raw = raw[n:]
			continue
		}
		n = protowire.ConsumeFieldValue(number, kind, raw)
		require.Positive(t, n)
		raw = raw[n:]
	}
	return fields
}

// TestTheCatalogAnswersAsOLMAsks queries opm over gRPC.
func TestTheCatalogAnswersAsOLMAsks(t *testing.T) {
	conn := serve(t, filepath.Join(root, "catalog"))
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/api.Registry/ListPackages")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message()))
	require.NoError(t, stream.CloseSend())
	var packages []string
	for {
		var answer emptypb.Empty
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		packages = append(packages, fieldsOf(t, &answer)[1]...)
	}
	require.Equal(t, []string{"oooi"}, packages)

	var answer emptypb.Empty
	require.NoError(t, conn.Invoke(t.Context(), "/api.Registry/GetBundleForChannel", message("oooi", "alpha"), &answer))
	const csvName, bundlePath, version, skipRange = 1, 6, 9, 10
	bundle := fieldsOf(t, &answer)
	require.Equal(t, []string{packaging.CSVName(table(t).Version)}, bundle[csvName])
	require.Equal(t, []string{table(t).Version}, bundle[version])
	require.Equal(t, []string{">=0.0.1 <" + table(t).Version}, bundle[skipRange])
	image, err := packaging.BundleImage(table(t), filepath.Join(root, "bundle"))
	require.NoError(t, err)
	digest, err := image.Digest()
	require.NoError(t, err)
	require.Equal(t, []string{table(t).BundleImage() + "@" + digest.String()}, bundle[bundlePath],
		"the catalog names the bundle's image by the digest that it is built with")
}
