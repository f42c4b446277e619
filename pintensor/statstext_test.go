package pintensor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestSizesOfBytes(t *testing.T) {
	leak.Check(t)
	for n, want := range map[int64]string{
		-1: "-1 B", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB",
		1000 << 20: "1000.0 MiB", 1<<30 - 1<<20: "1023.0 MiB", 5 << 40: "5.0 TiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

// full returns figures that all differ, so that none can stand for another.
func full(t *testing.T) (s Stats) {
	t.Helper()
	next := int64(1)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Struct:
				fill(f)
			case reflect.Int64, reflect.Int:
				f.SetInt(next)
				next++
			case reflect.String:
				f.SetString(v.Type().Field(i).Name)
			default:
				t.Fatalf("a field of kind %v", f.Kind())
			}
		}
	}
	fill(reflect.ValueOf(&s).Elem())
	return s
}

func TestStatsSurviveJSON(t *testing.T) {
	leak.Check(t)
	want := full(t)
	text := must[[]byte](t)(json.Marshal(want))
	var got Stats
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("from %s\ngot  %v\nwant %v", text, got, want)
	}
	var names map[string]any
	if err := json.Unmarshal(text, &names); err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if name != strings.ToLower(name) {
			t.Errorf("the field %q has no name of its own", name)
		}
	}
}

// A log has the same names and figures as JSON, so that a field that is added cannot be forgotten in one.
func TestStatsInLogs(t *testing.T) {
	leak.Check(t)
	for name, s := range map[string]Stats{"all": full(t), "none": {}} {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "stats", s)
		var line struct{ Stats map[string]any }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(must[[]byte](t)(json.Marshal(s)), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(line.Stats, want) {
			t.Errorf("%s: logged\n%v\nas JSON it is\n%v", name, line.Stats, want)
		}
	}
}

// An engine prints as what it holds, by whatever verb, also while it is being used.
func TestEngineAsText(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 10))
	want := "pintensor.Engine(" + e.Stats().String() + ")"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, e.Engine); got != want {
			t.Errorf("%s is %s, want %s", verb, got, want)
		}
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var none *Engine
	for want, e := range map[string]*Engine{
		"pintensor.Engine(closed; " + e.Stats().String() + ")": e.Engine,
		"pintensor.Engine(nil)":                                none,
		"pintensor.Engine(not made by NewEngine)":              {},
	} {
		if got := e.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestStatsAsText(t *testing.T) {
	leak.Check(t)
	s := full(t)
	got := s.String()
	want := fmt.Sprintf("lent %d B (peak %d B), cached %d B, in flight %d B, registered %d B (Locking), %d cold, %d warm, %d forgotten, %d waits, %d trims, "+
		"page-locking took 0s (at most 0s), %d B not page-locked", s.Lent.Current, s.Lent.Peak, s.Cached.Current, s.InFlight.Current, s.Registered.Current,
		s.Cold, s.Warm, s.Forgotten, s.Waits, s.Trims, s.Pageable.Current)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if strings.Contains(Stats{}.String(), "(0") || strings.Contains(Stats{}.String(), "not page-locked") {
		t.Errorf("nothing is %q", Stats{}.String())
	}
}
