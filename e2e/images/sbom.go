package images

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Package is a piece of an image that no Go build information tells of.
type Package struct {
	Name, Version string
	// PURL is the package URL.
	PURL string
	// License as SPDX writes it.
	License string
}

type sbom struct {
	SPDXVersion       string             `json:"spdxVersion"`
	DataLicense       string             `json:"dataLicense"`
	SPDXID            string             `json:"SPDXID"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      sbomCreation       `json:"creationInfo"`
	Packages          []sbomPackage      `json:"packages"`
	Relationships     []sbomRelationship `json:"relationships"`
}

type sbomCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type sbomPackage struct {
	Name             string         `json:"name"`
	SPDXID           string         `json:"SPDXID"`
	VersionInfo      string         `json:"versionInfo,omitempty"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	LicenseConcluded string         `json:"licenseConcluded"`
	LicenseDeclared  string         `json:"licenseDeclared"`
	CopyrightText    string         `json:"copyrightText"`
	Checksums        []sbomChecksum `json:"checksums,omitempty"`
	ExternalRefs     []sbomRef      `json:"externalRefs,omitempty"`
}

type sbomChecksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

type sbomRef struct {
	ReferenceCategory string `json:"referenceCategory"`
	ReferenceType     string `json:"referenceType"`
	ReferenceLocator  string `json:"referenceLocator"`
}

type sbomRelationship struct {
	SPDXElementID      string `json:"spdxElementId"`
	RelatedSPDXElement string `json:"relatedSpdxElement"`
	RelationshipType   string `json:"relationshipType"`
}

// SBOM is the bill of materials of an image as SPDX 2.3 JSON: the image, the
// modules that its Go binaries say they were built from, and the packages
// given.
func SBOM(reference, digest string, spec Spec, packages ...Package) ([]byte, error) {
	all, err := goModules(spec)
	if err != nil {
		return nil, err
	}
	all = append(all, packages...)
	slices.SortFunc(all, func(a, b Package) int { return cmp.Or(cmp.Compare(a.PURL, b.PURL), cmp.Compare(a.Version, b.Version)) })
	all = slices.Compact(all)
	root := sbomPackageOf("SPDXRef-image", Package{Name: reference, Version: digest, License: "Apache-2.0"})
	root.Checksums = []sbomChecksum{{Algorithm: "SHA256", ChecksumValue: strings.TrimPrefix(digest, "sha256:")}}
	document := sbom{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: reference,
		DocumentNamespace: "https://github.com/densityops/oooi/sbom/" + strings.TrimPrefix(digest, "sha256:"),
		CreationInfo:      sbomCreation{Created: epoch.Format(time.RFC3339), Creators: []string{"Tool: oooi-e2e-images"}},
		Packages:          []sbomPackage{root},
		Relationships:     []sbomRelationship{{"SPDXRef-DOCUMENT", root.SPDXID, "DESCRIBES"}},
	}
	for i, p := range all {
		id := fmt.Sprintf("SPDXRef-package-%d", i)
		document.Packages = append(document.Packages, sbomPackageOf(id, p))
		document.Relationships = append(document.Relationships, sbomRelationship{root.SPDXID, id, "CONTAINS"})
	}
	raw, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		return nil, fmt.Errorf("writing the SBOM: %w", err)
	}
	return append(raw, '\n'), nil
}

func sbomPackageOf(id string, p Package) sbomPackage {
	const unknown = "NOASSERTION"
	license := cmp.Or(p.License, unknown)
	out := sbomPackage{
		Name: p.Name, SPDXID: id, VersionInfo: p.Version, DownloadLocation: unknown,
		LicenseConcluded: license, LicenseDeclared: license, CopyrightText: unknown,
	}
	if p.PURL != "" {
		out.ExternalRefs = []sbomRef{{"PACKAGE-MANAGER", "purl", p.PURL}}
	}
	return out
}

// goModules are the modules of the Go binaries of an image.
func goModules(spec Spec) ([]Package, error) {
	var all []Package
	for _, file := range spec.Files {
		raw := file.Data
		if file.Source != "" {
			read, err := os.ReadFile(file.Source)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file.Path, err)
			}
			raw = read
		}
		info, err := buildinfo.Read(bytes.NewReader(raw))
		if err != nil {
			continue // Not made by Go.
		}
		all = append(all, Package{
			Name: "stdlib", Version: info.GoVersion, License: "BSD-3-Clause",
			PURL: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go"),
		})
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			all = append(all, Package{
				Name: module.Path, Version: module.Version,
				PURL: "pkg:golang/" + module.Path + "@" + module.Version + "?checksum=" + moduleSum(module.Sum),
			})
		}
	}
	return all, nil
}

// moduleSum is go.sum's "h1:" in the form that a package URL takes.
func moduleSum(sum string) string {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return ""
	}
	return "sha256:" + hex.EncodeToString(raw)
}
