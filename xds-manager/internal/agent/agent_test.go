package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/densityops/oooi/xds-manager/internal/agent/agenttest"
	"github.com/densityops/oooi/xds-manager/internal/agentpb"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// message is a snapshot of one generation.
func message(uid string, generation int64) *agentpb.Snapshot {
	return &agentpb.Snapshot{
		Version: "sha256:" + uid + string(rune('0'+generation)),
		Child:   &agentpb.Child{Namespace: "ns", Name: "p", Uid: uid, Generation: generation},
		Config:  &agentpb.Snapshot_Proxy{Proxy: &agentpb.ProxyConfig{ServerIp: "192.0.2.4", Cidr: "192.0.2.0/24"}},
	}
}

func parsed(t *testing.T, uid string, generation int64) *Snapshot {
	t.Helper()
	s, err := parse(message(uid, generation))
	require.NoError(t, err)
	return &s
}

func TestAPlainAndAPackedSnapshotAreTheSame(t *testing.T) {
	plain, err := os.ReadFile("../translate/testdata/two-attachments/in.json")
	require.NoError(t, err)
	want, err := Decode(plain)
	require.NoError(t, err)
	require.Len(t, want.Table.Backends, 15)
	packed, err := encode(want)
	require.NoError(t, err)
	got, err := Decode(packed)
	require.NoError(t, err)
	require.Equal(t, want.Version, got.Version, "an empty version is the content's hash, whatever the packing")
	require.Equal(t, want.Table, got.Table)
}

func TestASnapshotThatCannotBeServedIsAnError(t *testing.T) {
	cases := []struct{ name, input, want string }{
		{"no JSON", "{", "parsing snapshot"},
		{"another component's", `{"dns":{}}`, "no proxy configuration"},
		{"no server address", `{"proxy":{"cidr":"192.0.2.0/24"}}`, "serverIp"},
		{"an IPv6 server address", `{"proxy":{"serverIp":"2001:db8::1","cidr":"2001:db8::/64"}}`, "serverIp"},
		{"host bits in the network", `{"proxy":{"serverIp":"192.0.2.4","cidr":"192.0.2.4/24"}}`, "cidr"},
		{"a server address outside", `{"proxy":{"serverIp":"198.51.100.4","cidr":"192.0.2.0/24"}}`, "outside"},
		{"an unknown log level", `{"proxy":{"serverIp":"192.0.2.4","cidr":"192.0.2.0/24","logLevel":"loud"}}`, "logLevel"},
		{"cut gzip", "\x1f\x8b\x08\x00", "unpacking"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(c.input))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAnUnknownFieldIsIgnored(t *testing.T) {
	_, err := Decode([]byte(`{"proxy":{"serverIp":"192.0.2.4","cidr":"192.0.2.0/24","fieldOfTomorrow":1}}`))
	require.NoError(t, err)
}

func TestARefusedFileIsToldWhereItIsWrong(t *testing.T) {
	cases := []struct{ name, input, want string }{
		{"a number for a text", `{"proxy":{"serverIp":5}}`, "proxy.serverIp: invalid value for string field serverIp: 5"},
		{"a text for a number", `{"proxy":{"backends":[{},{"port":"x"}]}}`, `proxy.backends[1].port: invalid value for uint32 field port: "x"`},
		{"a fraction", `{"proxy":{"backends":[{"endpoints":[{"port":5.5}]}]}}`, "proxy.backends[0].endpoints[0].port: invalid value for uint32 field port: 5.5"},
		{"an object for a list", `{"proxy":{"backends":{}}}`, "proxy.backends: unexpected token {"},
		{"a number for an object", `{"proxy":{"backends":[{},5]}}`, "proxy.backends[1]: unexpected token 5"},
		{"a number in a list of texts", "{\"proxy\":{\n\n\"backends\":[\n{\"hostnames\":[\"a\", 7]}]}}", "proxy.backends[0].hostnames[1]: invalid value for string field hostnames: 7"},
		{"a word of an enumeration", `{"proxy":{"backends":[{"protocol":"TLS"}]}}`, `proxy.backends[0].protocol: invalid value for enum field protocol: "TLS"`},
		{"a field that nobody knows", `{"proxy":{"backends":[{"name":"a"},{"name":"b","prot":1}]}}`, `proxy.backends[1].prot: unknown field "prot"`},
		{"one that is there twice", `{"proxy":{"cidr":"a","cidr":"b"}}`, `proxy.cidr: duplicate field "cidr"`},
		{"a list for the whole", `[]`, "unexpected token ["},
		{"half a document", `{"proxy":{"serverIp":"192`, "unexpected EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeStrict([]byte(c.input))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A pipe would keep the loop waiting that everything else depends on.
func TestOnlyARegularFileIsRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	huge := filepath.Join(dir, "huge")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, maxSnapshot+1))
	for path, want := range map[string]string{pipe: "no regular file", dir: "no regular file", huge: "more than", filepath.Join(dir, "absent"): "no such file"} {
		_, err := Read(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
}

// What a look at the path says may not hold any more when it is opened.
func TestAPipeThatIsPutInBetweenKeepsNobodyWaiting(t *testing.T) {
	dir := t.TempDir()
	path, pipe, file := filepath.Join(dir, "snapshot"), filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	stop, swapped := make(chan struct{}), make(chan error, 1)
	go func() {
		swapped <- func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Rename(pipe, path), os.WriteFile(file, []byte("{}"), 0o600), os.Rename(file, path))
				if err != nil {
					return err
				}
			}
		}()
	}()
	files, pipes := 0, 0
	for range 100_000 {
		b, err := Read(path)
		if err == nil {
			require.Equal(t, "{}", string(b))
			files++
		} else {
			require.ErrorContains(t, err, "no regular file")
			pipes++
		}
		if files > 100 && pipes > 100 {
			break
		}
	}
	close(stop)
	require.NoError(t, <-swapped)
	require.Greater(t, min(files, pipes), 100)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAFileThatGrowsIsReadToTheBoundAtMost(t *testing.T) {
	_, err := readBounded(endless{}, 0)
	require.ErrorIs(t, err, errTooLarge)
	b, err := readBounded(io.LimitReader(endless{}, maxSnapshot), 0)
	require.NoError(t, err)
	require.Len(t, b, maxSnapshot)
}

func TestAnEntryThatCannotBeParsedIsThatEntrysProblem(t *testing.T) {
	const backend = `{"name":"bad","port":443,"protocol":"PROXY_PROTOCOL_TLS","hostnames":["x"],`
	for _, input := range []string{
		backend + `"endpoints":[{"ip":"no","port":1}]}`, backend + `"endpoints":[{"ip":"1.2.3.4","hostname":"x","port":1}]}`,
		backend + `"endpoints":[{"port":1}]}`, backend + `"endpoints":[{"ip":"1.2.3.4","port":70000}]}`,
		backend + `"sourcePrefixRanges":["192.0.2.300/32"]}`, `{"name":"bad","port":70000}`,
	} {
		s, err := Decode([]byte(`{"proxy":{"serverIp":"192.0.2.4","cidr":"192.0.2.0/24","backends":[` + input + `]}}`))
		require.NoError(t, err)
		require.Empty(t, s.Table.Backends)
		require.Len(t, s.Problems, 1, input)
		require.Equal(t, routes.ReasonInvalidBackend, s.Problems[0].Reason)
	}
}

func TestOneRuleSaysWhichSnapshotCounts(t *testing.T) {
	old, same, newer, other := parsed(t, "u", 1), parsed(t, "u", 2), parsed(t, "u", 3), parsed(t, "v", 1)
	cases := []struct {
		name string
		in   choice
		want *Snapshot
	}{
		{"nothing", choice{}, nil},
		{"the file alone", choice{file: old}, old},
		{"the stream's last alone", choice{streamed: old}, old},
		{"a connected stream beats a newer file", choice{connected: true, streamed: old, file: newer}, old},
		{"a connected stream beats another resource's file", choice{connected: true, streamed: old, file: other}, old},
		{"without a stream the higher generation", choice{streamed: old, file: newer}, newer},
		{"without a stream the higher generation, streamed", choice{streamed: newer, file: old}, newer},
		{"at one generation the stream's last", choice{streamed: same, file: parsed(t, "u", 2)}, same},
		{"another resource is the file's", choice{streamed: newer, file: other}, other},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Same(t, c.want, c.in.pick()) })
	}
}

// startHub serves on loopback; the client is told where, and with what.
func startHub(t *testing.T, dir string) (*agenttest.Hub, Hub) {
	t.Helper()
	h := agenttest.Start(t, dir)
	return h, Hub{Address: h.Address, CAFile: h.CAFile, TokenFile: h.TokenFile, Namespace: "ns", Name: "p", Module: "v0.1.0", Component: "xds-manager"}
}

// running is an agent with what it hands out.
type running struct {
	updates chan Update
	stop    context.CancelFunc
	done    chan error
}

func runAgent(t *testing.T, o Options) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := running{updates: make(chan Update, 64), stop: cancel, done: make(chan error, 1)}
	o.Logger, o.Observed, o.Connected = quiet(), func() string { return "sha256:before" }, func(bool) {}
	a := New(o)
	go func() { r.done <- a.Run(ctx, func(u Update) { r.updates <- u }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-r.done)
	})
	return r
}

// next waits for an update that holds the wanted version.
func (r running) next(t *testing.T, version string) Update {
	t.Helper()
	for {
		select {
		case u := <-r.updates:
			if u.Snapshot != nil && u.Snapshot.Version == version {
				return u
			}
		case <-time.After(10 * time.Second):
			require.Fail(t, "no update", version)
		}
	}
}

func TestTheStreamIsOpenedWithHandshakeAndToken(t *testing.T) {
	dir := t.TempDir()
	h, client := startHub(t, dir)
	r := runAgent(t, Options{Hub: client})
	got := <-h.Requests
	require.Equal(t, []string{"xds-manager", "v0.1.0", "agent.v1", "ns", "p", "sha256:before"},
		[]string{got.Component, got.ModuleVersion, got.Contract, got.Namespace, got.Name, got.ObservedVersion})
	h.Snapshots <- message("u", 1)
	require.True(t, r.next(t, "sha256:u1").Streamed)
	h.Snapshots <- message("u", 2)
	r.next(t, "sha256:u2")
}

func TestTheStreamComesBackWithANewToken(t *testing.T) {
	dir := t.TempDir()
	h, client := startHub(t, dir)
	require.NoError(t, os.WriteFile(client.TokenFile, []byte("expired"), 0o600))
	r := runAgent(t, Options{Hub: client})
	require.NoError(t, os.WriteFile(client.TokenFile, []byte(agenttest.Token), 0o600))
	<-h.Requests
	h.Snapshots <- message("u", 1)
	r.next(t, "sha256:u1")
}

func TestABadStreamedSnapshotLeavesTheLastGoodOne(t *testing.T) {
	dir := t.TempDir()
	h, client := startHub(t, dir)
	r := runAgent(t, Options{Hub: client})
	h.Snapshots <- message("u", 1)
	r.next(t, "sha256:u1")
	bad := message("u", 2)
	bad.GetProxy().ServerIp = "nonsense"
	h.Snapshots <- bad
	u := r.next(t, "sha256:u1")
	require.Len(t, u.Faults, 1)
	require.Contains(t, u.Faults[0], "nonsense")
	h.Snapshots <- message("u", 3)
	require.Empty(t, r.next(t, "sha256:u3").Faults)
}

func TestAFileIsFollowedAndABadOneChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json")
	put := func(content string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	encoded := func(generation int64) string {
		b, err := protojson.Marshal(message("u", generation))
		require.NoError(t, err)
		return string(b)
	}
	put(encoded(1))
	r := runAgent(t, Options{File: file})
	r.next(t, "sha256:u1")
	put("{")
	require.NotEmpty(t, r.next(t, "sha256:u1").Faults)
	put(encoded(2))
	require.Empty(t, r.next(t, "sha256:u2").Faults)
}

// A file that cannot be read for a while, and then is what it was, is no fault any more.
func TestAFileThatComesBackIsNoFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json")
	b, err := protojson.Marshal(message("u", 1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	r := runAgent(t, Options{File: file})
	require.Empty(t, r.next(t, "sha256:u1").Faults)
	require.NoError(t, os.Rename(file, file+".away"))
	require.NotEmpty(t, r.next(t, "sha256:u1").Faults)
	require.NoError(t, os.Rename(file+".away", file))
	require.Empty(t, r.next(t, "sha256:u1").Faults)
}

func TestAnEmptyFileIsAFault(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Keep(dir, *parsed(t, "u", 1)))
	file := filepath.Join(dir, "snapshot.json")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := runAgent(t, Options{StateDir: dir, File: file})
	require.NotEmpty(t, r.next(t, "sha256:u1").Faults)
}

// behaviour E11.
func TestTheLastGoodSnapshotOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Keep(dir, *parsed(t, "u", 2)))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing else is left behind")
	r := runAgent(t, Options{StateDir: dir, File: filepath.Join(dir, "absent")})
	require.True(t, r.next(t, "sha256:u2").Streamed)
}

// behaviour E11: a state directory that was another resource's.
func TestAnotherResourcesLastGoodSnapshotIsNotServed(t *testing.T) {
	dir := t.TempDir()
	s := parsed(t, "u", 2)
	require.NoError(t, Keep(dir, *s))
	o := Options{StateDir: dir, Logger: slog.Default(), Hub: Hub{Namespace: s.Namespace, Name: s.Name}}
	require.NotNil(t, New(o).LastGood())
	o.Hub.Name = "another"
	require.Nil(t, New(o).LastGood())
}

func TestADamagedStateDirectoryIsNoReasonToStop(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, lastGoodFile), []byte("\x1f\x8bgarbage"), 0o600))
	file := filepath.Join(dir, "snapshot.json")
	b, err := protojson.Marshal(message("u", 1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	r := runAgent(t, Options{StateDir: dir, File: file})
	r.next(t, "sha256:u1")
}

// FuzzDecode: no bytes that claim to be a snapshot may stop the manager, and
// what they become is valid.
func FuzzDecode(f *testing.F) {
	for _, dir := range []string{"two-attachments", "bad-backends", "any-source-tcp", "nothing"} {
		b, err := os.ReadFile("../translate/testdata/" + dir + "/in.json")
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		table, _ := s.Table.Validate()
		again, problems := table.Validate()
		require.Empty(t, problems, "what was found valid stays valid")
		require.Equal(t, table.Listeners(), again.Listeners())
	})
}
